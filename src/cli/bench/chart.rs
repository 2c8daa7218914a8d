//! The figures as a chart: a bar for each, as long as its share of what the disk allows.

use std::fs;
use std::io::Write;
use std::path::Path;

use super::super::problem::{Outcome, Problem};
use super::figure::Figure;

const ROW: usize = 26;
const LEFT: usize = 330;
const WIDTH: usize = 940;
const BARS: usize = 360;

/// Where a chart goes. It is opened before there is a chart; what it held stays until then.
pub(crate) struct File<'a> {
    path: &'a Path,
    file: fs::File,
}

impl<'a> File<'a> {
    pub(crate) fn create(path: &'a Path) -> Outcome<Self> {
        let file = fs::File::options().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| Problem::file("write", path, error))?;
        Ok(Self { path, file })
    }

    pub(crate) fn write(mut self, chart: &str) -> Outcome {
        let written = self
            .file
            .set_len(0)
            .and_then(|()| self.file.write_all(chart.as_bytes()));
        written.map_err(|error| Problem::file("write", self.path, error))
    }
}

/// Draws the chart as SVG.
pub(crate) fn draw(figures: &[Figure], title: &str) -> String {
    let height = 70 + ROW * figures.len();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"26\" font-size=\"16\">{}</text>\n\
         <text x=\"{LEFT}\" y=\"46\" fill=\"#666666\">share of what a bare log on the same disk does</text>\n",
        escaped(title)
    );
    for (number, figure) in figures.iter().enumerate() {
        let top = 58 + number * ROW;
        let text = top + 15;
        svg.push_str(&format!(
            "<text x=\"16\" y=\"{text}\">{} {}</text>\n",
            figure.workload,
            escaped(&figure.what)
        ));
        let told = told(figure);
        let ratio = figure.limit_ratio;
        let length = (ratio.clamp(0.0, 1.0) * BARS as f64).round() as usize;
        let beside = LEFT + length + 8;
        svg.push_str(&format!(
            "<rect x=\"{LEFT}\" y=\"{top}\" width=\"{length}\" height=\"18\" fill=\"#3b7dd8\"/>\n\
             <text x=\"{beside}\" y=\"{text}\">{:.0} %, {told}</text>\n",
            ratio * 100.0
        ));
    }
    svg.push_str("</svg>\n");
    svg
}

fn told(figure: &Figure) -> String {
    format!("{:.0} a second, p50 {:.0} us", figure.ops_per_s, figure.p50_us)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

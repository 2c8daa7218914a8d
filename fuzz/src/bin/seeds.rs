//! Writes the seeds into the corpus. What else lies there is left alone.

use std::path::Path;

use everstep_fuzz::seeds;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (target, seeds) in [
        ("key", seeds::keys()),
        ("envelope", seeds::envelopes()),
        ("import", seeds::imports()),
        ("history", seeds::histories()),
    ] {
        let folder = corpus.join(target);
        std::fs::create_dir_all(&folder)?;
        for (name, bytes) in seeds {
            std::fs::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}

//! Types that can't be messages, and options that can't be meant.

use everstep::Message;

#[derive(Message)]
union Bits {
    number: u32,
    float: f32,
}

#[derive(Message)]
struct Wrapper<T>(T);

#[derive(Message)]
#[message(title = "approval")]
struct Unknown;

#[derive(Message)]
#[message(name = "one")]
#[message(name = "two")]
struct Twice;

#[derive(Message)]
#[message(name = 1)]
struct Numbered;

#[derive(Message)]
#[message]
struct Empty;

fn main() {}

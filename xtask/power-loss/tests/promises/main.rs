//! What a power loss may take, and what never, seen with real processes.
//!
//! Each test starts this executable again, under the shim, as a child that
//! plays one of the roles below, kills it, and cuts the power many times.

mod content;
mod engines;
mod failures;
mod harness;
mod lives;
mod names;
mod refusals;

/// Not a test of its own: the body of every child.
#[test]
fn child_role() {
    let (Ok(role), Ok(root)) = (std::env::var(harness::ROLE), std::env::var("POWER_LOSS_ROOT")) else {
        return;
    };
    let root = std::path::Path::new(&root);
    let roles = [
        content::ROLES,
        engines::ROLES,
        failures::ROLES,
        lives::ROLES,
        names::ROLES,
        refusals::ROLES,
    ]
    .concat();
    let (_, play) = roles.iter().find(|(name, _)| *name == role).expect("a known role");
    play(root);
    harness::say("ready");
    // Until the parent kills this process or hangs up.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).expect("a pipe");
}

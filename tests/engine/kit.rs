//! What the files of this test share.

/// Defines a workflow that goes by the name of its type: what it is given, what it returns, what it accepts, and its
/// code. Each file says with a macro of its own what its workflows have in common.
macro_rules! define {
    ($name:ident: $input:ty => $output:ty, accepts [$($message:ty),*], |$ctx:ident, $given:pat_param| $body:expr) => {
        #[derive(Clone, Copy)]
        struct $name;

        impl everstep::Workflow for $name {
            const NAME: &'static str = stringify!($name);
            type Input = $input;
            type Output = $output;

            async fn run($ctx: everstep::Ctx<Self>, $given: $input) -> everstep::Result<$output> {
                $body
            }
        }

        $(impl everstep::Accepts<$message> for $name {})*
    };
}

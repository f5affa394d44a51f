//! From types to a component's exports.

/// Make a component of types that implement [`Tool`](crate::Tool), [`Prompt`](crate::Prompt),
/// [`Resource`](crate::Resource), [`ResourceTemplate`](crate::ResourceTemplate) and [`Completes`](crate::Completes), in this
/// order; all but `tools` may be left out.
///
/// ```ignore
/// export_plugin! {
///     tools: [Search],
///     prompts: [Review],
///     resources: [Readme],
///     templates: [Note],
///     completions: [Review, Note],
/// }
/// ```
#[macro_export]
macro_rules! export_plugin {
    (
        tools: [$($tool:ty),+ $(,)?]
        $(, prompts: [$($prompt:ty),+ $(,)?])?
        $(, resources: [$($resource:ty),+ $(,)?])?
        $(, templates: [$($template:ty),+ $(,)?])?
        $(, completions: [$($completes:ty),+ $(,)?])?
        $(,)?
    ) => {
        $crate::export_tools!($($tool),+);
        $($crate::export_prompts!($($prompt),+);)?
        $crate::export_resources!([$($($resource),+)?] [$($($template),+)?]);
        $($crate::export_completions!($($completes),+);)?
    };
}

/// Make a component of one or more types that implement [`Tool`](crate::Tool), and nothing else.
#[macro_export]
macro_rules! export_tools {
    ($($tool:ty),+ $(,)?) => {
        const _: () = {
            struct Component;

            impl $crate::bindings::exports::cyberos::plugin::tools::Guest for Component {
                fn list_tools() -> Vec<$crate::ToolDeclaration> {
                    vec![$($crate::declare::<$tool>()),+]
                }
                fn call_tool(name: String, arguments: String) -> Result<$crate::ToolResult, $crate::ToolError> {
                    $(if name == <$tool as $crate::Tool>::NAME {
                        return $crate::call::<$tool>(&arguments);
                    })+
                    Err($crate::ToolError::Internal(format!("this component has no tool {name}")))
                }
            }

            $crate::bindings::export!(Component with_types_in $crate::bindings);
        };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! export_prompts {
    ($($prompt:ty),+) => {
        const _: () = {
            use $crate::bindings::prompts::exports::cyberos::plugin::prompts as __wit;
            struct Component;

            impl __wit::Guest for Component {
                fn list_prompts() -> Vec<__wit::Prompt> {
                    vec![$($crate::glue::declare_prompt::<$prompt>()),+]
                }
                fn get_prompt(name: String, arguments: String) -> Result<__wit::PromptResult, $crate::ToolError> {
                    $(if name == <$prompt as $crate::Prompt>::NAME {
                        return $crate::glue::get::<$prompt>(&arguments);
                    })+
                    Err($crate::ToolError::Internal(format!("this component has no prompt {name}")))
                }
            }

            $crate::bindings::prompts::export!(Component with_types_in $crate::bindings::prompts);
        };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! export_resources {
    ([] []) => {};
    ([$($resource:ty),*] [$($template:ty),*]) => {
        const _: () = {
            use $crate::bindings::resources::exports::cyberos::plugin::resources as __wit;
            struct Component;

            impl __wit::Guest for Component {
                fn list_resources() -> Vec<__wit::Resource> {
                    vec![$($crate::glue::declare_resource::<$resource>()),*]
                }
                fn list_templates() -> Vec<__wit::Template> {
                    vec![$($crate::glue::declare_template::<$template>()),*]
                }
                fn read_resource(request: __wit::Request) -> Result<__wit::ReadResult, __wit::ReadError> {
                    let template = request.template.as_deref();
                    $(if template.is_none() && request.uri == <$resource as $crate::Resource>::URI {
                        return $crate::glue::read::<$resource>();
                    })*
                    $(if template == Some(<$template as $crate::ResourceTemplate>::URI_TEMPLATE) {
                        return $crate::glue::read_template::<$template>(&request);
                    })*
                    Err(__wit::ReadError::NotFound)
                }
            }

            $crate::bindings::resources::export!(Component with_types_in $crate::bindings::resources);
        };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! export_completions {
    ($($completes:ty),+) => {
        const _: () = {
            use $crate::bindings::completions::exports::cyberos::plugin::completions as __wit;
            struct Component;

            impl __wit::Guest for Component {
                fn complete(request: __wit::Request) -> Result<__wit::Suggestions, $crate::ToolError> {
                    $(if let Some(suggested) = $crate::glue::complete::<$completes>(&request) {
                        return suggested;
                    })+
                    Ok(__wit::Suggestions { values: vec![], total: None, has_more: false })
                }
            }

            $crate::bindings::completions::export!(Component with_types_in $crate::bindings::completions);
        };
    };
}

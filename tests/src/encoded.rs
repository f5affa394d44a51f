//! Components that no compiler makes: written section by section, for what they ask of the host before and while they run.
//!
//! Each exports one function, which is the tool `cyberos.<plugin>.attack_host` ([`tool`]). Source: the binary format of
//! core WebAssembly 3.0 and of the component model.

use wasm_encoder::{
    BlockType, CodeSection, ComponentBuilder, ComponentExportKind, ExportKind, ExportSection, Function,
    FunctionSection, HeapType, InstructionSink, MemorySection, MemoryType, Module, PrimitiveValType, RefType,
    TableSection, TableType, TypeSection, ValType,
};

/// The one tool of the plugin with this id.
pub fn tool(plugin: &str) -> String {
    format!("cyberos.{}.attack_host", plugin.replace('-', ""))
}

/// What a core module has beside its function.
#[derive(Clone, Copy, Default)]
pub struct Wants {
    /// Elements of its table when it starts.
    pub table: Option<u64>,
    /// Pages of 64 KiB of each memory when it starts.
    pub pages: u64,
    pub memories: u32,
}

/// A component that would answer 0, and starts with what it wants.
pub fn wanting(wants: Wants) -> Vec<u8> {
    component(wants, |code| {
        code.i32_const(0);
    })
}

/// Lengthens its table for as long as it can, and traps when it is refused.
pub fn grows_table() -> Vec<u8> {
    component(Wants { table: Some(1), ..Wants::default() }, |code| {
        code.loop_(BlockType::Empty).ref_null(HeapType::FUNC).i32_const(1_000).table_grow(0);
        code.i32_const(-1).i32_eq().if_(BlockType::Empty).unreachable().end().br(0).end().i32_const(0);
    })
}

/// Calls itself, with nothing in linear memory.
pub fn recurses() -> Vec<u8> {
    component(Wants::default(), |code| {
        code.call(0).i32_const(1).i32_add();
    })
}

/// Declares what a component needs that starts tasks of the component model: sets of waitables, and threads that are made
/// from a table of functions, each of which could make more.
pub fn spawns_tasks() -> Vec<u8> {
    let mut component = ComponentBuilder::default();
    component.waitable_set_new();
    component.thread_index();
    component.thread_yield(false);
    component.subtask_drop();
    with_function(
        component,
        &module(Wants::default(), |code| {
            code.i32_const(0);
        }),
    )
}

/// A component in a component in a component, so many times.
pub fn nested(depth: usize) -> Vec<u8> {
    let mut inner = wanting(Wants::default());
    for _ in 0..depth {
        let mut outer = ComponentBuilder::default();
        outer.component_raw(None, &inner);
        inner = outer.finish();
    }
    inner
}

fn component(wants: Wants, code: impl FnOnce(&mut InstructionSink<'_>)) -> Vec<u8> {
    with_function(ComponentBuilder::default(), &module(wants, code))
}

fn with_function(mut component: ComponentBuilder, module: &Module) -> Vec<u8> {
    let module = component.core_module(None, module);
    let instance = component.core_instantiate(None, module, []);
    let core = component.core_alias_export(None, instance, "run", ExportKind::Func);
    let (signature, mut encoder) = component.type_function(None);
    encoder.params([] as [(&str, PrimitiveValType); 0]).result(Some(PrimitiveValType::U32.into()));
    let lifted = component.lift_func(None, core, signature, []);
    component.export("attack-host", ComponentExportKind::Func, lifted, None);
    component.finish()
}

fn module(wants: Wants, code: impl FnOnce(&mut InstructionSink<'_>)) -> Module {
    let mut types = TypeSection::new();
    types.ty().function([], [ValType::I32]);
    let mut functions = FunctionSection::new();
    functions.function(0);
    let mut tables = TableSection::new();
    if let Some(minimum) = wants.table {
        let element_type = RefType::FUNCREF;
        tables.table(TableType { element_type, table64: false, minimum, maximum: None, shared: false });
    }
    let mut memories = MemorySection::new();
    for _ in 0..wants.memories {
        let (memory64, shared, page_size_log2) = (false, false, None);
        memories.memory(MemoryType { minimum: wants.pages, maximum: None, memory64, shared, page_size_log2 });
    }
    let mut exports = ExportSection::new();
    exports.export("run", ExportKind::Func, 0);
    let mut function = Function::new([]);
    code(&mut function.instructions());
    function.instructions().end();
    let mut bodies = CodeSection::new();
    bodies.function(&function);
    let mut module = Module::new();
    module.section(&types).section(&functions).section(&tables).section(&memories).section(&exports).section(&bodies);
    module
}

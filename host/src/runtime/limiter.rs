//! Memory, tables and instances of one call. Remembers what it refused, because a guest whose allocator is refused
//! usually aborts, and an abort alone does not say why.

use wasmtime::ResourceLimiter;

use super::shares::MemoryShare;
use crate::config::Limits;

pub struct Limiter {
    memory_bytes: usize,
    table_elements: usize,
    /// Over all memories of all core instances of the call.
    memory_used: usize,
    tables_used: usize,
    /// What the calls of the plugin have together.
    share: MemoryShare,
    pub refused: bool,
    /// It was within this call's own limit, and refused because the plugin's other calls hold the rest of the share.
    pub share_refused: bool,
}

/// Core instances of one component: language runtimes that link many modules need more than three.
const MAX_INSTANCES: usize = 128;

impl Limiter {
    pub fn new(limits: &Limits, share: MemoryShare) -> Self {
        Limiter {
            memory_bytes: limits.memory_bytes,
            table_elements: limits.table_elements,
            memory_used: 0,
            tables_used: 0,
            share,
            refused: false,
            share_refused: false,
        }
    }

    fn grow(used: &mut usize, limit: usize, current: usize, desired: usize) -> bool {
        let after = used.saturating_sub(current).saturating_add(desired);
        if after > limit {
            return false;
        }
        *used = after;
        true
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let before = self.memory_used;
        if !Self::grow(&mut self.memory_used, self.memory_bytes, current, desired) {
            self.refused = true;
            return Ok(false);
        }
        if !self.share.take(self.memory_used.saturating_sub(before)) {
            self.memory_used = before;
            self.share_refused = true;
            return Ok(false);
        }
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let granted = Self::grow(&mut self.tables_used, self.table_elements, current, desired);
        self.refused |= !granted;
        Ok(granted)
    }

    fn instances(&self) -> usize {
        MAX_INSTANCES
    }
    fn tables(&self) -> usize {
        MAX_INSTANCES * 2
    }
    fn memories(&self) -> usize {
        MAX_INSTANCES
    }
}

impl Drop for Limiter {
    fn drop(&mut self) {
        self.share.give_back(self.memory_used);
    }
}

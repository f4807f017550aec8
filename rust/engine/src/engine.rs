//! The engine itself.

use std::sync::Arc;

use treadle_contract::{BatchPolicy, Plan};
use treadle_core::Result;
use treadle_kernels::Isa;
use treadle_team::{Pool, Token, affinity};

use crate::recent::{BorrowedPlan, RecentPlans};
use crate::{BufferPool, CacheKey, PlanCache};

/// The CPU provider of this build.
pub const PROVIDER_ID: &str = "treadle.cpu.native";

/// What an engine is made of; the same options make an equal engine again.
#[derive(Clone)]
pub struct EngineOptions {
    /// Width: the calling thread and `threads - 1` workers.
    pub threads: usize,
    /// How batches are spread.
    pub batch: BatchPolicy,
    /// A cache to share, or none for one of its own.
    pub plan_cache: Option<PlanCache<Plan>>,
    /// Entries of the engine's own cache.
    pub plan_capacity: usize,
    /// Bytes that the buffer pool retains at most.
    pub buffer_bytes: usize,
    /// One CPU for each thread; the first belongs to the caller, who is never pinned.
    pub affinity: Option<Vec<usize>>,
    /// Prefix of the workers' names.
    pub name: Option<String>,
    /// Instruction set, if it was restricted.
    pub isa: Option<Isa>,
    /// Stack of each worker.
    pub stack_bytes: usize,
}

/// A thread team, a plan cache, a buffer pool and a batch policy.
pub struct CpuEngine {
    options: EngineOptions,
    pool: Option<Pool>,
    plans: PlanCache<Plan>,
    recent: RecentPlans<Plan>,
    buffers: BufferPool,
    operations: u64,
}

/// What an operation works with, borrowed from its engine side by side.
pub struct Parts<'a> {
    /// The whole budget.
    pub token: Token<'a>,
    /// Where outputs and scratch come from.
    pub buffers: &'a BufferPool,
    /// Where plans are kept.
    pub plans: &'a PlanCache<Plan>,
    /// How batches are spread.
    pub batch: BatchPolicy,
    /// The instruction set, if it was restricted.
    pub isa: Option<Isa>,
}

impl CpuEngine {
    /// Starts the workers.
    ///
    /// # Errors
    /// `Argument` for a width of zero, `Engine` when a worker cannot be started, `Unsupported` for affinity where
    /// the system has none.
    pub fn new(options: EngineOptions) -> Result<Self> {
        let pool = build_pool(&options)?;
        Ok(Self::with_pool(options, pool))
    }

    /// An engine over a pool that the caller built; `None` computes on the caller alone.
    pub fn with_pool(options: EngineOptions, pool: Option<Pool>) -> Self {
        let plans = options
            .plan_cache
            .clone()
            .unwrap_or_else(|| PlanCache::new(options.plan_capacity));
        let buffers = BufferPool::new(options.buffer_bytes);
        CpuEngine {
            options,
            pool,
            plans,
            recent: RecentPlans::new(),
            buffers,
            operations: 0,
        }
    }

    /// What it was made from.
    #[inline]
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Replaces the batch policy and returns the one before.
    pub fn set_batch(&mut self, batch: BatchPolicy) -> BatchPolicy {
        std::mem::replace(&mut self.options.batch, batch)
    }

    /// The plan cache.
    #[inline]
    pub fn plans(&self) -> &PlanCache<Plan> {
        &self.plans
    }

    /// The plan of that key, if it is held.
    #[inline(always)]
    pub fn plan(&mut self, key: &CacheKey) -> Option<BorrowedPlan<Plan>> {
        self.recent.take(&self.plans, key)
    }

    /// Puts a new plan into the cache, as far as its bounds allow.
    pub fn keep(&mut self, key: &CacheKey, plan: Plan) -> BorrowedPlan<Plan> {
        let plan = Arc::new(plan);
        let bytes = plan.retained_bytes();
        self.plans.insert(key, Arc::clone(&plan), bytes);
        BorrowedPlan::new(plan)
    }

    /// Keeps a plan at hand for the next call.
    #[inline]
    pub fn put_back(&mut self, plan: BorrowedPlan<Plan>) {
        self.recent.put_back(plan);
    }

    /// The buffer pool.
    #[inline]
    pub fn buffers(&self) -> &BufferPool {
        &self.buffers
    }

    /// The team, if the engine is wider than one.
    #[inline]
    pub fn pool(&self) -> Option<&Pool> {
        self.pool.as_ref()
    }

    /// Operations begun.
    #[inline]
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Counts an operation that needs nothing of the engine but its turn.
    #[inline]
    pub fn count_operation(&mut self) {
        self.operations += 1;
    }

    /// Begins an operation.
    ///
    /// # Errors
    /// `ReentrantCall` from a worker of the engine's own pool, `ForkedEngine` in a forked child.
    #[inline]
    pub fn begin(&mut self) -> Result<Parts<'_>> {
        self.operations += 1;
        let token = match &mut self.pool {
            Some(pool) => pool.token()?,
            None => Token::serial(),
        };
        Ok(Parts {
            token,
            buffers: &self.buffers,
            plans: &self.plans,
            batch: self.options.batch,
            isa: self.options.isa,
        })
    }

    /// Joins the workers and frees what is retained.
    pub(crate) fn close(&mut self) {
        self.pool = None;
        self.recent.clear();
        self.buffers.close();
        if self.options.plan_cache.is_none() {
            self.plans.clear();
        }
    }

    /// Fresh workers, empty caches. After a fork nothing of the parent's is locked or freed.
    pub(crate) fn rebuild(&mut self, forked: bool) -> Result<()> {
        let pool = build_pool(&self.options)?;
        if forked {
            self.abandon();
            self.options.plan_cache = None;
        }
        self.pool = pool;
        self.recent.clear();
        self.buffers = BufferPool::new(self.options.buffer_bytes);
        if self.options.plan_cache.is_none() {
            self.plans = PlanCache::new(self.options.plan_capacity);
        }
        Ok(())
    }

    /// Leaks what belongs to the parent of a forked process: its locks may be held by threads that do not exist
    /// here. The memory is the child's copy and goes with the child.
    pub(crate) fn abandon(&mut self) {
        let plans = std::mem::replace(&mut self.plans, PlanCache::new(0));
        let buffers = std::mem::replace(&mut self.buffers, BufferPool::new(0));
        let shared = self.options.plan_cache.take();
        #[allow(clippy::mem_forget)]
        {
            std::mem::forget((plans, buffers, shared));
        }
    }
}

/// The team of an engine with those options; `None` for width one.
///
/// # Errors
/// As [`CpuEngine::new`].
pub fn build_pool(options: &EngineOptions) -> Result<Option<Pool>> {
    if options.threads == 1 {
        return Ok(None);
    }
    let mut builder = Pool::builder()
        .threads(options.threads)
        .stack_size(options.stack_bytes);
    if let Some(name) = options.name.clone() {
        builder = builder.name(move |index| format!("{name}-{index}"));
    }
    if let Some(cpus) = options.affinity.clone() {
        // Refuse before a thread exists, not from inside one.
        let allowed = affinity::allowed_cpus()?;
        for &cpu in &cpus {
            if !allowed.contains(&cpu) {
                return Err(treadle_core::Error::new(
                    treadle_core::ErrorCode::Argument,
                    format!(
                        "affinity names CPU {cpu}, which this process may not use; allowed are {allowed:?}"
                    ),
                )
                .with("cpu", cpu));
            }
        }
        builder = builder.on_start(move |index| {
            // Workers are counted from 0; the first CPU is the caller's.
            if let Some(&cpu) = cpus.get(index + 1) {
                // The mask was checked above; should it have changed since, the worker runs unpinned.
                let _ = affinity::pin_current_thread(cpu);
            }
        });
    }
    builder.build().map(Some)
}

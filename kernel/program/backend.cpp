#include "meshwright/backend.h"

#include "meshwright/program_pass.h"
#include "tensor/guarded.h"

namespace meshwright {

OpKernels::~OpKernels() = default;
bool OpKernels::reads_transposed(const OpCall&, std::size_t) const { return false; }
KernelTable::~KernelTable() = default;
RunObserver::~RunObserver() = default;
Executable::~Executable() = default;
StagesExecutable::~StagesExecutable() = default;
Backend::~Backend() = default;
ProgramPass::~ProgramPass() = default;

Result<std::vector<Tensor>> OpKernels::compute(const OpCall& call, std::span<const Tensor* const> operands) const {
  const std::string where = call.node.op + " at '" + call.node.name + "'";
  return guarded([&] { return where + ": the kernel"; }, [&]() -> Result<std::vector<Tensor>> {
    Result<std::vector<Tensor>> results = do_compute(call, operands);
    if (!results) return add_context(where, results.error());
    if (results->empty()) return results;
    if (Status status = check_results(call, *results); !status) return add_context(where + ": the kernel", status.error());
    return results;
  });
}

Result<std::vector<Tensor>> compute(const OpCall& call, std::span<const Tensor* const> operands, const OpTable& ops,
                                    const KernelTable* kernels) {
  if (const OpKernels* kernel = kernels ? kernels->find(call.node.op) : nullptr) {
    Result<std::vector<Tensor>> results = kernel->compute(call, operands);
    if (!results || !results->empty() || call.results.empty()) return results;
  }
  if (!call.transposed.empty()) return plugin_failed(call.node.op + " at '" + call.node.name + "': no kernel reads operands that are transposed");
  const OpFamily* family = ops.find(call.node.op);
  if (!family) return bad_input(call.node.op + " at '" + call.node.name + "': no op family serves it");
  return family->evaluate(call, operands);
}

Result<Program> ProgramPass::run(Program program, const PlanningContext& context) const {
  return guarded([] { return std::string("the pass"); }, [&] { return do_run(std::move(program), context); });
}

Result<Report> Backend::run(const BackendInput& input) const {
  return guarded([] { return std::string("the backend"); }, [&] { return do_run(input); });
}

Result<std::vector<EmittedFile>> Backend::emit(const BackendInput& input) const {
  return guarded([] { return std::string("the backend"); }, [&] { return do_emit(input); });
}

Result<std::vector<EmittedFile>> Backend::emit_stages(const PipelinePlan& pipeline, const std::vector<BackendInput>& stages) const {
  return guarded([] { return std::string("the backend"); }, [&] { return do_emit_stages(pipeline, stages); });
}

Result<std::unique_ptr<Executable>> Backend::compile(const BackendInput& input) const {
  return guarded([] { return std::string("the backend"); }, [&]() -> Result<std::unique_ptr<Executable>> {
    Result<std::unique_ptr<Executable>> made = do_compile(input);
    if (made && *made == nullptr) return plugin_failed("the backend made nothing");
    return made;
  });
}

Result<std::unique_ptr<StagesExecutable>> Backend::compile_stages(const std::vector<BackendInput>& stages, const GroupOrders& orders) const {
  return guarded([] { return std::string("the backend"); }, [&]() -> Result<std::unique_ptr<StagesExecutable>> {
    Result<std::unique_ptr<StagesExecutable>> made = do_compile_stages(stages, orders);
    if (made && *made == nullptr) return plugin_failed("the backend made nothing");
    return made;
  });
}

Processes Backend::processes() const { return do_processes(); }

bool Backend::computes_in(DType dtype) const { return do_computes_in(dtype); }

Status Backend::agree(const Status& mine) const {
  return guarded([] { return std::string("the backend"); }, [&] { return do_agree(mine); });
}

Status StagesExecutable::load(const std::vector<TensorSource>& sources, const std::vector<StateSource>& states) {
  return guarded([] { return std::string("the executable"); }, [&] { return do_load(sources, states); });
}

Result<Report> StagesExecutable::step(const std::vector<TensorSource>& inputs, const std::vector<RunObserver*>& observers) {
  return guarded([] { return std::string("the executable"); }, [&] { return do_step(inputs, observers); });
}

Result<Tensor> StagesExecutable::fetch(std::size_t stage, ValueId source) const {
  return guarded([] { return std::string("the executable"); }, [&] { return do_fetch(stage, source); });
}

Result<OptimizerState> StagesExecutable::fetch_state(std::size_t stage, ValueId parameter) const {
  return guarded([] { return std::string("the executable"); }, [&] { return do_fetch_state(stage, parameter); });
}

std::vector<std::int64_t> StagesExecutable::peak_bytes() const { return do_peak_bytes(); }

Status Executable::load(const TensorSource& source, const StateSource& states) {
  return guarded([] { return std::string("the executable"); }, [&] { return do_load(source, states); });
}

Result<Report> Executable::step(const TensorSource& inputs, RunObserver* observer) {
  return guarded([] { return std::string("the executable"); }, [&] { return do_step(inputs, observer); });
}

Result<Tensor> Executable::fetch(ValueId source) const {
  return guarded([] { return std::string("the executable"); }, [&] { return do_fetch(source); });
}

Result<OptimizerState> Executable::fetch_state(ValueId parameter) const {
  return guarded([] { return std::string("the executable"); }, [&] { return do_fetch_state(parameter); });
}

Result<Report> Backend::do_run(const BackendInput& input) const {
  const Result<std::unique_ptr<Executable>> executable = do_compile(input);
  if (!executable) return executable.error();
  if (Status status = (*executable)->load(input.source); !status) return status.error();
  return (*executable)->step(input.source, input.observer);
}

Result<std::unique_ptr<Executable>> Backend::do_compile(const BackendInput&) const { return bad_input("this backend runs nothing"); }

Result<std::unique_ptr<StagesExecutable>> Backend::do_compile_stages(const std::vector<BackendInput>&, const GroupOrders&) const {
  return bad_input("this backend runs no pipelines");
}

Processes Backend::do_processes() const { return {}; }

bool Backend::do_computes_in(DType dtype) const { return dtype == DType::float32 || dtype == DType::float64; }

Status Backend::do_agree(const Status& mine) const { return mine; }

Result<std::vector<EmittedFile>> Backend::do_emit(const BackendInput&) const {
  return bad_input("this backend writes nothing");
}

Result<std::vector<EmittedFile>> Backend::do_emit_stages(const PipelinePlan&, const std::vector<BackendInput>&) const {
  return bad_input("this backend writes no plans of several stages; emit a plan of one (search.stages = 1), or with backend \"torch\"");
}

}  // namespace meshwright

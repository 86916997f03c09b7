#include "plugins/program_source.h"

#include "meshwright/stages.h"
#include "stage_devices.h"

namespace meshwright::host {

namespace {

// What plugins serve of a backend's ops: KernelTable or EmitterTable.
template <class Table, class T>
class Loaded final : public Table {
 public:
  [[nodiscard]] const T* find(std::string_view op) const override {
    const auto found = objects_.find(op);
    return found == objects_.end() ? nullptr : found->second.object.get();
  }

  // The id of the plugin that serves the op already; else empty, and from now on this one does.
  std::string add(std::string op, std::string id, std::shared_ptr<const T> object) {
    const auto [known, added] = objects_.try_emplace(std::move(op), Served{std::move(id), std::move(object)});
    return added ? "" : known->second.id;
  }

 private:
  struct Served {
    std::string id;
    std::shared_ptr<const T> object;
  };

  std::map<std::string, Served, std::less<>> objects_;
};

template <class T>
Status create(PluginHost& host, std::string_view kind, const std::string& id, std::shared_ptr<T>& object) {
  Result<std::shared_ptr<T>> made = host.create<T>(kind, id);
  if (!made) return made.error();
  object = std::move(*made);
  return Done{};
}

// `claimed(name, first, second)` says what becomes of a name that two plugins serve.
template <class Table, class T, class Claimed>
Result<std::unique_ptr<Table>> served(PluginHost& host, std::string_view kind, const std::string& backend, Claimed claimed) {
  auto table = std::make_unique<Loaded<Table, T>>();
  for (const std::string& id : host.registry().ids(kind)) {
    const Result<std::vector<std::string>> names = host.served_by(kind, id);
    if (!names) return names.error();
    std::shared_ptr<T> made;
    for (const std::string& name : *names) {
      if (!name.starts_with(backend + ":")) continue;
      if (Status status = made ? Status(Done{}) : create(host, kind, id, made); !status) return status.error();
      const std::string first = table->add(name.substr(backend.size() + 1), id, made);
      if (Status status = first.empty() ? Status(Done{}) : claimed(name, first, id); !status) return status.error();
    }
  }
  return std::unique_ptr<Table>(std::move(table));
}

std::string planned_with(const Plan& plan, std::string_view kind, const std::string& otherwise) {
  for (const UsedPlugin& used : plan.plugins) {
    if (used.kind == kind) return used.id;
  }
  return otherwise;
}

}  // namespace

Result<ProgramTools> open_tools(PluginHost& host, const Plan& plan, std::unique_ptr<OpTable> ops) {
  Result<ProgramTools> tools = open_passes(host, plan, std::move(ops));
  if (!tools) return tools;
  std::shared_ptr<Profiler> profiler;
  const std::string id = planned_with(plan, "profilers", host.config().search.text("profiler"));
  if (Status status = create(host, "profilers", id, profiler); !status) return status.error();
  Result<CostProfile> profile = profiler->recall(plan.cluster);
  if (!profile) return profile.error();
  tools->profile = for_training(std::move(*profile), plan.training);
  if (plan.model.graph) tools->profile.parameter_bytes = parameter_bytes(plan.graph(), plan.training);
  return tools;
}

Result<ProgramTools> open_passes(PluginHost& host, const Plan& plan, std::unique_ptr<OpTable> ops) {
  ProgramTools tools;
  const Config &search = host.config().search, &emit = host.config().emit;
  Status status = create(host, "conversions", planned_with(plan, "conversions", search.text("conversions")), tools.conversions);
  for (const auto& [step, pass] : {std::pair("parameter_shard", &tools.parameter_shard), {"communication", &tools.communication}, {"reshape", &tools.reshape}}) {
    if (status) status = create(host, "passes", emit.text(step), *pass);
    if (status && (*pass)->alters_backward()) tools.altering.push_back(emit.text(step));
  }
  if (!status) return status.error();
  tools.ops = std::move(ops);
  if (tools.ops != nullptr) return tools;
  Result<std::unique_ptr<OpTable>> opened = host.op_table();
  if (!opened) return opened.error();
  tools.ops = std::move(*opened);
  return tools;
}

Result<Program> make_program(const Plan& plan, const ProgramTools& tools) { return make_program(plan, tools.context(plan.model, plan.training), tools); }

Result<Program> make_program(const Plan& plan, const PlanningContext& context, const ProgramTools& tools) {
  return meshwright::make_program(plan, context, {tools.parameter_shard.get(), tools.communication.get(), tools.reshape.get()});
}

Result<StagePrograms> make_programs(const PipelinePlan& pipeline, const ProgramTools& tools) {
  StagePrograms made;
  const Result<StageDevices> devices = StageDevices::of(pipeline.cluster, pipeline);
  if (!devices) return devices.error();
  const std::vector<std::uint32_t> groups = groups_of_stages(pipeline.orders, pipeline.stages.size()).value();
  for (const Plan& plan : pipeline.stages) {
    const CostProfile& profile = made.profiles.emplace_back(profile_of_stage(tools.profile, *devices, groups, plan.part, plan.graph(), plan.training));
    Result<Program> program = make_program(plan, PlanningContext{plan.model, plan.training, *tools.ops, profile, *tools.conversions, &plan.part}, tools);
    if (!program) return add_context("stage " + std::to_string(plan.part.stage), program.error());
    made.programs.push_back(std::move(*program));
  }
  if (Status status = validate_stages(made.programs); !status) return status.error();
  return made;
}

Result<std::unique_ptr<KernelTable>> kernels_for(PluginHost& host, const std::string& backend) {
  return served<KernelTable, OpKernels>(host, "kernels", backend, [](const auto&...) -> Status { return Done{}; });
}

Result<std::unique_ptr<EmitterTable>> emitters_for(PluginHost& host, const std::string& backend) {
  const auto refuse = [](const std::string& name, const std::string& first, const std::string& second) -> Status {
    return bad_input("the emitters \"" + first + "\" and \"" + second + "\" both serve " + name + "; leave one of them out of the plugins' folders");
  };
  return served<EmitterTable, OpEmitter>(host, "emitters", backend, refuse);
}

}  // namespace meshwright::host

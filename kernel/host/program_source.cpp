#include "program_source.h"

namespace meshwright::host {

namespace {

class LoadedKernels final : public KernelTable {
 public:
  explicit LoadedKernels(std::map<std::string, std::shared_ptr<const OpKernels>, std::less<>> kernels)
      : kernels_(std::move(kernels)) {}

  [[nodiscard]] const OpKernels* find(std::string_view op) const override {
    const auto found = kernels_.find(op);
    return found == kernels_.end() ? nullptr : found->second.get();
  }

 private:
  std::map<std::string, std::shared_ptr<const OpKernels>, std::less<>> kernels_;
};

template <class T>
Status create(PluginHost& host, std::string_view kind, const std::string& id, std::shared_ptr<T>& object) {
  Result<std::shared_ptr<T>> made = host.create<T>(kind, id);
  if (!made) return made.error();
  object = std::move(*made);
  return Done{};
}

std::string planned_with(const Plan& plan, std::string_view kind, const std::string& otherwise) {
  for (const UsedPlugin& used : plan.plugins) {
    if (used.kind == kind) return used.id;
  }
  return otherwise;
}

}  // namespace

Result<ProgramTools> open_tools(PluginHost& host, const Plan& plan) {
  Result<ProgramTools> tools = open_passes(host, plan);
  if (!tools) return tools;
  std::shared_ptr<Profiler> profiler;
  const std::string id = planned_with(plan, "profilers", host.config().search.text("profiler"));
  if (Status status = create(host, "profilers", id, profiler); !status) return status.error();
  Result<CostProfile> profile = profiler->profile(plan.cluster);
  if (!profile) return profile.error();
  tools->profile = std::move(*profile);
  return tools;
}

Result<ProgramTools> open_passes(PluginHost& host, const Plan& plan) {
  ProgramTools tools;
  const Config &search = host.config().search, &emit = host.config().emit;
  Status status = create(host, "conversions", planned_with(plan, "conversions", search.text("conversions")), tools.conversions);
  if (status) status = create(host, "passes", emit.text("parameter_shard"), tools.parameter_shard);
  if (status) status = create(host, "passes", emit.text("communication"), tools.communication);
  if (status) status = create(host, "passes", emit.text("reshape"), tools.reshape);
  if (!status) return status.error();
  Result<std::unique_ptr<OpTable>> ops = host.op_table();
  if (!ops) return ops.error();
  tools.ops = std::move(*ops);
  return tools;
}

Result<Program> make_program(const Plan& plan, const ProgramTools& tools) {
  return meshwright::make_program(plan, tools.context(plan.model, plan.training),
                                  {tools.parameter_shard.get(), tools.communication.get(), tools.reshape.get()});
}

Result<std::unique_ptr<KernelTable>> kernels_for(PluginHost& host, const std::string& backend) {
  std::map<std::string, std::shared_ptr<const OpKernels>, std::less<>> kernels;
  for (const std::string& id : host.registry().ids("kernels")) {
    Result<std::vector<std::string>> served = host.served_by("kernels", id);
    if (!served) return served.error();
    std::shared_ptr<OpKernels> made;
    for (const std::string& name : *served) {
      if (!name.starts_with(backend + ":")) continue;
      if (Status status = made ? Status(Done{}) : create(host, "kernels", id, made); !status) return status.error();
      kernels.try_emplace(name.substr(backend.size() + 1), made);
    }
  }
  return std::unique_ptr<KernelTable>(std::make_unique<LoadedKernels>(std::move(kernels)));
}

}  // namespace meshwright::host

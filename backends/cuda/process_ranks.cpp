#include "process_ranks.h"

#include <utility>

namespace meshwright::cuda {

namespace {

// The rank's own commands move what is moved.
class NoCarrier final : public Carrier {
  Result<bool> move(std::int64_t, std::size_t, const Instruction&, const Tensor&, Tensor&) override { return none(); }
  Status send(std::int64_t, std::int64_t, const Message&, const ShardedType&, const Tensor&) override { return none(); }
  Result<bool> receive(std::int64_t, std::size_t, std::int64_t, const Message&, const ShardedType&, Tensor&) override {
    return none();
  }
  static Error none() { return internal_error("a rank on a GPU moves what it has by itself"); }
};

class GpuCarriers final : public ProcessCarriers {
  Carrier& of(std::size_t) override { return carrier_; }
  [[nodiscard]] std::int64_t fetched_bytes(std::size_t) const override { return 0; }
  Status finish() override { return Done{}; }

  NoCarrier carrier_;
};

class GpuRuntime final : public ProcessRuntime {
 public:
  GpuRuntime(ProcessWorld& world, MakeRank make_rank) : ProcessRuntime(world), make_rank_(std::move(make_rank)) {}

 private:
  [[nodiscard]] MakeRank make_rank() const override { return make_rank_; }
  std::unique_ptr<ProcessCarriers> make_carriers() override { return std::make_unique<GpuCarriers>(); }

  const MakeRank make_rank_;
};

}  // namespace

std::unique_ptr<Runtime> make_gpu_runtime(ProcessWorld& world, MakeRank make_rank) {
  return std::make_unique<GpuRuntime>(world, std::move(make_rank));
}

}  // namespace meshwright::cuda

// Runs a program with each rank in a process of its own: all of it but how values get from one to the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "carrier.h"
#include "process_world.h"
#include "runtime.h"

namespace meshwright {

// What carries values from and to this process in one step.
class ProcessCarriers {
 public:
  virtual ~ProcessCarriers() = default;
  // Of a stage that has ranks here.
  virtual Carrier& of(std::size_t stage) = 0;
  [[nodiscard]] virtual std::int64_t fetched_bytes(std::size_t stage) const = 0;
  // When all is asked for: returns when it is done. Errors: of what is done then.
  virtual Status finish() = 0;
};

class ProcessRuntime : public Runtime {
 public:
  // `world` outlives it.
  explicit ProcessRuntime(ProcessWorld& world) : world_(world) {}

  void place(DeviceGroup& group) override;
  PartsOfAll parts_of_all(const DeviceGroup& group) override;
  // A failure ends all processes.
  Result<Report> run(Stages& stages, const std::vector<std::vector<const Tensor*>>& inputs,
                     const std::vector<RunObserver*>& observers) override;
  Status ended(const Status& status) override;
  Result<Tensor> told(const DeviceGroup& group, Result<Tensor> found) override;
  std::int64_t largest(std::int64_t number) override { return world_.largest(number); }

 private:
  // Once, before the first step.
  virtual Status plan(const Stages& /*stages*/) { return Done{}; }
  virtual std::unique_ptr<ProcessCarriers> make_carriers() = 0;

  // `at`: what is being done.
  Status execute_all(Stages& stages, const std::vector<std::vector<const Tensor*>>& inputs,
                     const std::vector<RunObserver*>& observers, ProcessCarriers& carriers,
                     const std::vector<std::size_t>& here, Turn& at);
  Result<Report> report(const Stages& stages, const ProcessCarriers& carriers, const std::vector<std::size_t>& here);

  ProcessWorld& world_;
  bool is_planned_ = false;
};

}  // namespace meshwright

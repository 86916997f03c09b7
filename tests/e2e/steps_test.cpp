// What training keeps lasts from step to step, and is that of one device: parameters, momentum and moments, buffers.
#include "planned_program.h"

namespace meshwright::test {
namespace {

struct StepTrial {
  const char* model;
  const char* mesh;
  std::vector<std::string> settings;
};

void PrintTo(const StepTrial& trial, std::ostream* out) { *out << trial.model << " on " << trial.mesh << ": " << joined(trial.settings); }

class ThreeSteps : public testing::TestWithParam<StepTrial> {};

TEST_P(ThreeSteps, AreThoseOfOneDevice) {
  Result<PlannedProgram> planned = planned_program(GetParam().model, GetParam().mesh, GetParam().settings);
  ASSERT_TRUE(planned) << planned.error().message;
  expect_verifies(*planned, 3);
}

INSTANTIATE_TEST_SUITE_P(
    Models, ThreeSteps,
    testing::Values(StepTrial{"gpt2_tiny", "2x2x2", {}}, StepTrial{"gpt2_tiny", "2x2", {"train.optimizer=momentum", "train.microbatches=2"}},
                    StepTrial{"gpt2_tiny", "4", {"train.optimizer=sgd", "search.zero=3", "search.batch_axes=all"}},
                    StepTrial{"mlp_tiny", "2x2", {"train.optimizer=adam", "search.zero=1", "search.batch_axes=all", "train.microbatches=2"}},
                    StepTrial{"mlp_tiny", "4", {"search.zero=2", "search.batch_axes=all"}},
                    StepTrial{"resnet_tiny", "2x2", {"train.microbatches=2", "train.batch_coupling=allow", "train.tf32=true"}}, StepTrial{"resnet_tiny", "4", {}}));

// Faults in what lasts are found only behind the first step.
class Forgetful final : public Backend {
 public:
  explicit Forgetful(const Backend& inner) : inner_(inner) {}

 private:
  // Loads anew before each step: neither parameters nor moments last.
  struct Anew final : Executable {
    explicit Anew(std::unique_ptr<Executable> inner) : inner(std::move(inner)) {}
    Status do_load(const TensorSource& source, const StateSource&) override {
      return inner->load([&](ValueId id, std::int64_t microbatch) {
        const Tensor* tensor = source(id, microbatch);
        if (tensor != nullptr) first.insert_or_assign(id, *tensor);
        return tensor;
      });
    }
    Result<Report> do_step(const TensorSource& inputs, RunObserver* observer) override {
      if (Status status = inner->load([&](ValueId id, std::int64_t) { return &first.at(id); }); !status) return status.error();
      return inner->step(inputs, observer);
    }
    Result<Tensor> do_fetch(ValueId source) const override { return inner->fetch(source); }
    Result<OptimizerState> do_fetch_state(ValueId parameter) const override { return inner->fetch_state(parameter); }
    const std::unique_ptr<Executable> inner;
    std::map<ValueId, Tensor> first;
  };

  Result<std::unique_ptr<Executable>> do_compile(const BackendInput& input) const override {
    Result<std::unique_ptr<Executable>> inner = inner_.compile(input);
    if (!inner) return inner;
    return std::unique_ptr<Executable>(std::make_unique<Anew>(std::move(*inner)));
  }

  const Backend& inner_;
};

TEST(ForgottenState, IsFound) {
  PlannedProgram planned = planned_program("gpt2_tiny", "2x2", {}).value();
  const Graph& graph = planned.plan.graph();
  const auto sources = sample_sources(graph, {}, 0).value();
  const auto backend = planned.host.create<Backend>("backend", "reference").value();
  const Forgetful forgetful(*backend);
  for (const std::int64_t steps : {1, 2}) {
    const auto later = sample_steps(graph, {}, 1, steps).value();
    const Result<Verification> result =
        verify({graph, planned.program, *planned.tools.ops, planned.tools.profile, nullptr, forgetful, sources, 1e-4, 1e-3, {}, false, later});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->equal, steps == 1) << result->max_relative_error;
  }
}

}  // namespace
}  // namespace meshwright::test

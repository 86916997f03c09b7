// Microbatches of the same data give the gradient of the whole batch, where the loss is a mean over samples.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <span>
#include <tuple>

#include "meshwright/frontend.h"
#include "microbatches.h"
#include "program_bench.h"
#include "sources.h"
#include "verify.h"

namespace meshwright::test {
namespace {

using Tensors = std::map<ValueId, Tensor>;

// The larger of two numbers; NaN where either is none, which std::max would lose.
double larger(double a, double b) { return std::isnan(a) || b <= a ? a : b; }

class FullBatch : public testing::TestWithParam<std::tuple<std::string, std::int64_t>> {
 protected:
  FullBatch() {
    const auto frontend = bench().host.create<Frontend>("frontend", "torch_export").value();
    const Graph read = frontend->read(SOURCE_FOLDER "/tests/models/" + std::get<0>(GetParam()) + ".pt2").value();
    whole_ = make_float64_model(read, ops_).value();
    part_ = make_float64_model(cut_into_microbatches(read, ops_, microbatches_, false).value(), ops_).value();
    sources_ = sample_sources(*whole_.graph, {}, 1).value();
    keep_every_label();
    for (std::int64_t i = 0; i < microbatches_; ++i) {
      Tensors& inputs = parts_.emplace_back();
      for (const Source& source : whole_.graph->sources) {
        if (source.kind == SourceKind::user_input) inputs.emplace(source.value, rows(source.value, i));
        else if (i == 0) inputs.emplace(source.value, sources_.at(source.value));
      }
    }
  }

  // With labels that are ignored microbatches hold unequal counts, and the mean of their means is another number.
  void keep_every_label() {
    for (auto& [id, tensor] : sources_) {
      if (whole_.graph->type(id).dtype != DType::int64) continue;
      for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        if (tensor.get(i) == -100) tensor.set(i, 1);
      }
    }
  }

  // Microbatch `number` of an input.
  [[nodiscard]] Tensor rows(ValueId id, std::int64_t number) const {
    Tensor part(part_.graph->type(id));
    EXPECT_EQ(part.elements() * microbatches_, sources_.at(id).elements());
    for (std::int64_t i = 0; i < part.elements(); ++i) part.set(i, sources_.at(id).get(number * part.elements() + i));
    return part;
  }

  [[nodiscard]] std::span<const Tensors> further() const { return std::span(parts_).subspan(1); }

  // In shares of the largest number; NaN where any number is none.
  static double difference(const Tensor& a, const Tensor& b) {
    double largest = 0, worst = 0;
    for (std::int64_t i = 0; i < a.elements(); ++i) {
      largest = larger(largest, std::abs(a.get(i)));
      worst = larger(worst, std::abs(a.get(i) - b.get(i)));
    }
    return worst == 0 ? 0 : worst / largest;
  }

  const OpTable& ops_ = *bench().tools.ops;
  const std::int64_t microbatches_ = std::get<1>(GetParam());
  ModelAnalysis whole_, part_;
  Tensors sources_;             // of the whole batch
  std::vector<Tensors> parts_;  // of each microbatch; the first has the parameters too
};

TEST_P(FullBatch, HasTheGradientsOfItsParts) {
  const SerialStep whole = run_serial({*whole_.graph, ops_, nullptr, sources_, Optimizer::sgd, {}}).value();
  const SerialStep parts =
      run_serial({*part_.graph, ops_, nullptr, parts_[0], Optimizer::sgd, {}, 1e-5, further()}).value();
  ASSERT_EQ(parts.outputs.size(), static_cast<std::size_t>(microbatches_));
  double loss = 0;
  for (const Tensor& output : parts.outputs) loss += output.get(0) / static_cast<double>(microbatches_);
  const double whole_loss = whole.outputs[0].get(0);  // logits behind it
  EXPECT_NEAR(loss, whole_loss, 1e-12 * std::abs(whole_loss));
  ASSERT_FALSE(whole.gradients.empty());
  ASSERT_EQ(parts.gradients.size(), whole.gradients.size());
  for (const auto& [id, gradient] : whole.gradients) {
    EXPECT_LT(difference(gradient, parts.gradients.at(id)), 1e-10) << whole_.graph->values[id].name;
    EXPECT_LT(difference(whole.updated.at(id), parts.updated.at(id)), 1e-12) << whole_.graph->values[id].name;
  }
}

// What ranks compute of the parts, held against the whole batch on one device.
class Against final : public RunObserver {
 public:
  Against(const Program& program, const SerialStep& whole) : program_(program), whole_(whole) {}

  void on_update(std::int64_t rank, std::uint32_t parameter, const Tensor& gradient, const Tensor& updated) override {
    const ProgramParameter& here = program_.parameters[parameter];
    ShardedType type = program_.type(here.value);
    type.layout = here.state;
    compare(rank, type, gradient, whole_.gradients.at(here.source));
    compare(rank, type, updated, whole_.updated.at(here.source));
  }
  void on_gathered(std::int64_t rank, std::uint32_t parameter, const Tensor& value) override {
    const ProgramParameter& here = program_.parameters[parameter];
    compare(rank, program_.type(here.value), value, whole_.updated.at(here.source));
  }
  void on_output(std::int64_t, std::uint32_t, const Tensor&) override {}

  double worst = 0;
  int compared = 0;

 private:
  void compare(std::int64_t rank, const ShardedType& type, const Tensor& part, const Tensor& whole) {
    const ShardIndex index(type, program_.mesh, coordinates_of(program_.mesh, rank));
    double largest = 0, difference = 0;
    for (std::int64_t i = 0; i < whole.elements(); ++i) largest = larger(largest, std::abs(whole.get(i)));
    for (std::int64_t i = 0; i < part.elements(); ++i) {
      if (const std::int64_t place = index.global(i); place >= 0) difference = larger(difference, std::abs(part.get(i) - whole.get(place)));
    }
    const std::scoped_lock lock(mutex_);
    if (difference != 0) worst = larger(worst, difference / largest);
    ++compared;
  }

  const Program& program_;
  const SerialStep& whole_;
  std::mutex mutex_;
};

TEST_P(FullBatch, HasTheGradientsOfAProgramOverItsParts) {
  const SerialStep whole = run_serial({*whole_.graph, ops_, nullptr, sources_, Optimizer::sgd, {}}).value();
  const Mesh mesh = plain_mesh({2, 2});
  const CostProfile profile = plain_profile();
  TrainingSettings training;
  training.optimizer = Optimizer::sgd;
  training.microbatches = microbatches_;
  for (const bool keep : {true, false}) {
    training.keep_gradients = keep;
    for (const ZeroStage stage : {ZeroStage::none, ZeroStage::optimizer, ZeroStage::gradient, ZeroStage::value}) {
      SCOPED_TRACE(std::string(keep ? "kept" : "reduced") + ", stage " + std::to_string(static_cast<int>(stage)));
      const ProblemInput input{{part_, training, ops_, profile, *bench().tools.conversions}, mesh, {.zero = stage}};
      const Plan plan = draw_plan(input, build_problem(input).value(), 3).value();
      const Program program = host::make_program(plan, bench().tools).value();
      Against against(program, whole);
      BackendInput run{program, ops_, profile, nullptr, {}, &against, {}};
      run.source = [&](ValueId id, std::int64_t microbatch) { return &parts_[static_cast<std::size_t>(microbatch)].at(id); };
      const Result<Report> report = bench().reference->run(run);
      ASSERT_TRUE(report) << report.error().message;
      EXPECT_LT(against.worst, 1e-9);
      EXPECT_GE(against.compared, static_cast<int>(8 * whole.gradients.size()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, FullBatch,
                         testing::Combine(testing::Values(std::string("mlp_tiny"), std::string("gpt2_tiny")), testing::Values(std::int64_t{2}, std::int64_t{4})),
                         [](const auto& info) { return std::get<0>(info.param) + "_" + std::to_string(std::get<1>(info.param)); });

}  // namespace
}  // namespace meshwright::test

// [train] microbatches = "free": as many parts of the batch as make the fastest plan that fits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "folder_test.h"
#include "planned_program.h"
#include "run_program.h"

namespace meshwright {
namespace {

using host::PlanOptions;
using host::PlanOutcome;
using test::run_program;
using testing::HasSubstr;

class FreeMicrobatches : public test::FolderTest {
 protected:
  static std::string command(const std::string& microbatches, std::int64_t budget) {
    return " " + test::tiny("gpt2_tiny") + " --cluster " + test::cluster_of("4") + " --mesh 4 --set search.step_rounds=0 --set train.microbatches=" + microbatches +
           (budget > 0 ? " --memory-budget " + std::to_string(budget) : "");
  }
  static std::int64_t peak(const std::string& microbatches) {
    PlanOptions options;
    options.model = test::tiny("gpt2_tiny");
    options.cluster = test::cluster_of("4");
    options.mesh = "4";
    options.set = {"search.step_rounds=0", "train.microbatches=" + microbatches};
    const Result<PlanOutcome> outcome = test::plan(options);
    return outcome && outcome->plan ? outcome->plan->peak_bytes : 0;
  }
};

TEST_F(FreeMicrobatches, AreOneWhereAllFits) {
  const std::string file = path("plan.json");
  const auto planned = run_program("plan" + command("free", 0) + " -o " + file);
  ASSERT_EQ(planned.exit_code, 0) << planned.errors;
  EXPECT_THAT(planned.output, HasSubstr("1 take "));
  EXPECT_THAT(read(file), HasSubstr("\"microbatches\": 1"));
}

TEST_F(FreeMicrobatches, AreMoreWhereOneDoesNotFit) {
  // Below what one part needs at least, and above what two hold.
  const auto refused = run_program("plan" + command("1", 1));
  ASSERT_NE(refused.exit_code, 0);
  const std::int64_t two = peak("2");
  ASSERT_GT(two, 0);
  std::int64_t budget = two;
  while (run_program("plan" + command("1", budget)).exit_code == 0) budget = budget * 9 / 10;
  const std::string file = path("plan.json");
  const auto planned = run_program("plan" + command("free", budget) + " -o " + file);
  ASSERT_EQ(planned.exit_code, 0) << planned.errors;
  EXPECT_THAT(planned.output, HasSubstr("1 do not fit"));
  EXPECT_THAT(read(file), testing::Not(HasSubstr("\"microbatches\": 1,")));
  EXPECT_EQ(run_program("verify " + file).exit_code, 0);
}

TEST_F(FreeMicrobatches, AreRefusedByNameWhereNothingFitsOrNobodyTries) {
  const auto refused = run_program("plan" + command("free", 1));
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.errors, HasSubstr("do not fit"));
  const auto compared = run_program("compare" + command("free", 0) + " --intra elimination");
  EXPECT_NE(compared.exit_code, 0);
  EXPECT_THAT(compared.errors, HasSubstr("microbatches"));
  const auto wrong = run_program("plan" + command("few", 0));
  EXPECT_NE(wrong.exit_code, 0);
  EXPECT_THAT(wrong.errors, HasSubstr("\"few\""));
  const auto ordered = run_program("plan" + command("free", 0) + " --set 'train.order=F0 F1 B0 B1'");
  EXPECT_NE(ordered.exit_code, 0);
  EXPECT_THAT(ordered.errors, HasSubstr("\"order\""));
}

}  // namespace
}  // namespace meshwright

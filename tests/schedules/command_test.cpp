// `meshwright schedule`, as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "files/json.h"
#include "folder_test.h"
#include "run_program.h"

namespace meshwright::host {
namespace {

using test::Outcome;
using test::run_program;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const Json& field(const Json& json, const char* name) {
  const Json* found = json.find(name);
  EXPECT_NE(found, nullptr) << name;
  return *found;
}

std::int64_t number(const Json& json, const char* name) { return std::get<std::int64_t>(field(json, name).value()); }

std::vector<std::int64_t> numbers(const Json& json, const char* name) {
  std::vector<std::int64_t> all;
  for (const Json& one : std::get<Json::Array>(field(json, name).value()))
    all.push_back(std::get<std::int64_t>(one.value()));
  return all;
}

Json schedule(const std::string& arguments) {
  const Outcome outcome = run_program("schedule " + arguments + " --format json");
  EXPECT_EQ(outcome.exit_code, 0) << arguments << ": " << outcome.errors;
  const Result<Json> json = parse_json(outcome.output, "output");
  EXPECT_TRUE(json.ok()) << outcome.output;
  return json ? *json : Json();
}

std::string refusal(const std::string& arguments) {
  const Outcome outcome = run_program("schedule " + arguments);
  EXPECT_EQ(outcome.exit_code, 2) << arguments;
  EXPECT_EQ(outcome.output, "") << arguments;
  return outcome.errors;
}

class ScheduleCommand : public test::FolderTest {
 protected:
  std::string file(const std::string& text) const {
    write("schedule.csv", text);
    return path("schedule.csv");
  }
};

TEST_F(ScheduleCommand, PrintsJson) {
  const Json json = schedule("one_f_one_b --stages 4 --microbatches 8");
  EXPECT_EQ(number(json, "makespan"), 33);
  EXPECT_EQ(numbers(json, "in_flight"), (std::vector<std::int64_t>{4, 3, 2, 1}));
  EXPECT_DOUBLE_EQ(std::get<double>(field(json, "bubble_fraction").value()), 9.0 / 33);
  EXPECT_EQ(number(json, "chunks"), 1);
  const Json::Array& last = std::get<Json::Array>(std::get<Json::Array>(field(json, "order").value()).back().value());
  EXPECT_EQ(std::get<std::string>(last[1].value()), "3B0");
  EXPECT_EQ(number(schedule("zb_v --stages 4 --microbatches 8"), "makespan"), 51);
  EXPECT_EQ(number(schedule("interleaved --stages 4 --microbatches 8 --chunks 3"), "makespan"), 3 * 3 * 8 + 9);
  EXPECT_EQ(number(schedule("gpipe --stages 1 --microbatches 1"), "makespan"), 3);
}

TEST_F(ScheduleCommand, PrintsATimeGrid) {
  const Outcome outcome = run_program("schedule gpipe --stages 2 --microbatches 2");
  EXPECT_EQ(
      outcome.output,
      "gpipe: 2 stages, 1 chunk each, 2 microbatches; makespan 9, bubble 33.3 %\n"
      "\n"
      "  stage  positions  in flight  busy  idle\n"
      "  0      0                  2     6     3\n"
      "  1      1                  2     6     3\n"
      "\n"
      "  time       0    1    2    3    4    5    6    7    8\n"
      "  stage 0  0F0  0F1    .    .    .  0B0    -  0B1    -\n"
      "  stage 1    .  1F0  1F1  1B0    -  1B1    -    .    .\n"
      "\n"
      "  F forward, B backward, I its input gradient, W its weight gradient; before it the position, after it the "
      "microbatch\n");
  const Outcome large = run_program("schedule one_f_one_b --stages 64 --microbatches 1024");
  EXPECT_THAT(large.output,
              HasSubstr("The time grid has 208704 cells and is left out; --format json has every event."));
}

TEST_F(ScheduleCommand, DrawsAPicture) {
  const Outcome outcome = run_program("schedule zb_h1 --stages 3 --microbatches 4 --format svg");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, StartsWith("<svg "));
  std::size_t events = 0;
  for (std::size_t at = 0; (at = outcome.output.find("fill-opacity=\"1.00\"><title>", at)) != std::string::npos; ++at)
    ++events;
  EXPECT_EQ(events, 3 * 4 * 3);
  EXPECT_THAT(outcome.output, HasSubstr("<title>1W0 at "));
  EXPECT_THAT(refusal("gpipe --stages 64 --microbatches 1024 --format svg"),
              HasSubstr("a picture of 131072 events shows nothing"));
}

// What is printed of a schedule is what its file has.
TEST_F(ScheduleCommand, ReadsAFileInPytorchsFormat) {
  const Json made = schedule("dualpipe_v --stages 3 --microbatches 7");
  std::string csv;
  for (const Json& order : std::get<Json::Array>(field(made, "order").value())) {
    for (const Json& cell : std::get<Json::Array>(order.value())) csv += std::get<std::string>(cell.value()) + ",";
    csv += "\n";
  }
  const std::string path = file(csv);
  const Json read = schedule("from_csv --file " + path);
  for (const char* name :
       {"stages", "chunks", "microbatches", "makespan", "in_flight", "positions", "order", "starts"}) {
    EXPECT_EQ(write_json(field(read, name)), write_json(field(made, name))) << name;
  }
  EXPECT_EQ(number(schedule("from_csv --set search.from_csv.file=" + path), "makespan"), number(made, "makespan"));
  EXPECT_EQ(number(schedule("from_csv --stages 3 --chunks 2 --microbatches 7 --file " + path), "makespan"),
            number(made, "makespan"));
  EXPECT_THAT(refusal("from_csv --stages 4 --file " + path),
              HasSubstr(path + ": has 3 stages, not 4; leave out their number, or give another file"));
  EXPECT_THAT(refusal("from_csv --file " + file("0F0,0B0,0X0\n")),
              HasSubstr("schedule.csv, line 1, column 3: '0X0' is no event; expected position, kind and microbatch"));
}

TEST_F(ScheduleCommand, SaysWhatIsWrong) {
  EXPECT_THAT(refusal("gpipe --microbatches 4"), HasSubstr("gpipe needs --stages"));
  EXPECT_THAT(refusal("gpipe --stages 4"), HasSubstr("gpipe needs --microbatches"));
  EXPECT_THAT(refusal("gpipe --stages 0 --microbatches 4"), HasSubstr("--stages: Value 0 not in range 1 to 4096"));
  EXPECT_THAT(refusal("gpipe --stages 1000000000 --microbatches 4"), HasSubstr("--stages"));
  EXPECT_THAT(refusal("gpipe --stages 99999999999999999999 --microbatches 4"), HasSubstr("--stages"));
  EXPECT_THAT(refusal("gpipe --stages -1 --microbatches 4"), HasSubstr("--stages"));
  EXPECT_THAT(refusal("gpipe --stages four --microbatches 4"), HasSubstr("--stages"));
  EXPECT_THAT(refusal("gpipe --stages 4096 --microbatches 4096"),
              HasSubstr("16777216 forwards (stages times chunks times microbatches) is too large"));
  EXPECT_THAT(refusal("gpipe --stages 4 --microbatches 4 --chunks 2"),
              HasSubstr("gpipe has 1 chunk on each stage, not 2; leave out their number"));
  EXPECT_THAT(refusal("zb_v --stages 4 --microbatches 4 --chunks 1"),
              HasSubstr("zb_v has 2 chunks on each stage, not 1"));
  EXPECT_THAT(refusal("gpip --stages 4 --microbatches 4"), HasSubstr("did you mean \"gpipe\"?"));
  EXPECT_THAT(refusal("gpip --stages 4 --microbatches 4 --file x.csv"), HasSubstr("did you mean \"gpipe\"?"));
  EXPECT_THAT(refusal("gpipe --stages 4 --microbatches 4 --file x.csv"),
              HasSubstr("--file x.csv: gpipe reads no file; leave it out, or take from_csv"));
  EXPECT_THAT(refusal("from_csv"),
              HasSubstr("from_csv reads a schedule from a file, and none is named; give --file FILE"));
  EXPECT_THAT(refusal("from_csv --file " + path("none.csv")),
              HasSubstr("none.csv: there is no such file"));
  EXPECT_THAT(refusal("from_csv --file " + path("")), HasSubstr("is no regular file"));
  EXPECT_THAT(refusal("from_csv --file " + file("")), HasSubstr("has no events"));
  EXPECT_THAT(refusal("gpipe --stages 4 --microbatches 4 --format csv"), HasSubstr("--format"));
}

}  // namespace
}  // namespace meshwright::host

#include "schedule_csv.h"

#include <gtest/gtest.h>

#include <string>

namespace meshwright {
namespace {

std::string order_text(const PipelineSchedule& schedule) {
  std::string text;
  for (std::size_t stage = 0; stage < schedule.shape.stages; ++stage) {
    for (const PipelineEvent& event : schedule.order[stage]) text += to_string(schedule, stage, event) + " ";
    text += "| ";
  }
  return text;
}

std::string read(const std::string& text) {
  const Result<PipelineSchedule> schedule = read_schedule_csv(text, "s.csv");
  return schedule ? order_text(*schedule) : schedule.error().message;
}

std::string beginning(const std::string& text, std::size_t length) { return read(text).substr(0, length); }

TEST(ScheduleCsv, ReadsEvents) {
  const Result<PipelineSchedule> schedule = read_schedule_csv("0F0,0F1,,0B0,0B1\r\n,1F0,1B0,1F1,1I1,1W1\r\n", "s.csv");
  ASSERT_TRUE(schedule.ok()) << schedule.error().message;
  EXPECT_EQ(schedule->shape, (ScheduleShape{2, 1, 2}));
  EXPECT_EQ(order_text(*schedule), "0F0 0F1 0B0 0B1 | 1F0 1B0 1F1 1I1 1W1 | ");
}

// A V: the second line holds the middle of the model. Chunks are in ascending order, whatever comes first in the line.
TEST(ScheduleCsv, FindsChunks) {
  const Result<PipelineSchedule> schedule = read_schedule_csv("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n", "s.csv");
  ASSERT_TRUE(schedule.ok()) << schedule.error().message;
  EXPECT_EQ(schedule->shape, (ScheduleShape{2, 2, 1}));
  EXPECT_EQ(schedule->positions, (std::vector<std::uint32_t>{0, 3, 1, 2}));
}

TEST(ScheduleCsv, SkipsWhatFollowsFromTheOrder) {
  EXPECT_EQ(read("0UNSHARD,0F0,0SEND_F0,0WAIT_SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD\n"
                 "1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0\n"),
            "0F0 0B0 | 1F0 1B0 | ");
  EXPECT_EQ(read("0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1, \"0B2\" \n\n \n"), "0F0 0F1 0F2 0B0 0B1 0B2 | ");
}

TEST(ScheduleCsv, NamesThePlaceOfWhatIsNoEvent) {
  for (const std::string cell : {"0X1",
                                 "F0",
                                 "0F",
                                 "0F0x",
                                 "x0F0",
                                 "0f0",
                                 "-1F0",
                                 "0B0W0",
                                 "0SEND_F",
                                 "0UNSHARD0",
                                 "0 F0",
                                 "(0F0)",
                                 "(0F0;0B0",
                                 "()OVERLAP_F_B",
                                 "(0F0;)OVERLAP_F_B",
                                 "(;0F0)OVERLAP_F_B",
                                 "(0F0;0B0)OVERLAP",
                                 "\"",
                                 "0F0;0F1",
                                 "\xff",
                                 "0F+1"}) {
    const std::string message = read("0F0,0B0\n,\t" + cell + "\n");
    EXPECT_EQ(message.substr(0, 26), "s.csv, line 2, column 2: '") << message;
    EXPECT_NE(message.find("is no event; expected position, kind and microbatch, such as 0F0"), std::string::npos)
        << message;
  }
  EXPECT_EQ(beginning("0F0,\x1b[2J", 36), "s.csv, line 1, column 2: '\\x1b[2J' i");
}

TEST(ScheduleCsv, RefusesSizesBeforeTheyAreHeld) {
  EXPECT_EQ(beginning("4294967296F0", 51), "s.csv, line 1, column 1: position 4294967296F0 is t");
  EXPECT_EQ(beginning("1048576F0", 48), "s.csv, line 1, column 1: position 1048576F0 is t");
  EXPECT_EQ(beginning("0F4096", 53), "s.csv, line 1, column 1: the microbatch of 0F4096 is ");
  EXPECT_EQ(beginning("0F0,0B99999999999999999999", 50), "s.csv, line 1, column 2: the microbatch of 0B99999");
  EXPECT_EQ(read("0F0\n" + std::string(5000, '\n') + "1F0\n"),
            "s.csv, line 5002: a schedule has at most 4096 stages, a line each");
  EXPECT_EQ(read("1048575F0,1048575B0\n"),
            "s.csv: position 0 is on no line, but 1048575 is; they are numbered from 0 without gaps");
}

TEST(ScheduleCsv, RefusesOrdersThatCantRun) {
  EXPECT_EQ(beginning("", 25), "s.csv: has no events; eac");
  EXPECT_EQ(beginning(" \n,\n", 25), "s.csv: has no events; eac");
  EXPECT_EQ(beginning("0F0,0B0\n,\n", 58), "s.csv, line 2: has events of 0 positions, line 1 of 1; eac");
  EXPECT_EQ(beginning("0F0,0B0\n1F0,1B0,2F0,2B0\n", 58), "s.csv, line 2: has events of 2 positions, line 1 of 1; eac");
  EXPECT_EQ(beginning("0F0,0B0\n1F0,0B1\n", 66), "s.csv, line 2, column 2: position 0 is on line 1 too; all events o");
  EXPECT_EQ(beginning("0F0,0B0,0F0\n", 67), "s.csv: this order can't run: stage 0, event 2 (0F0) comes twice; st");
  EXPECT_EQ(beginning("0F0,0B0,0F2\n", 63), "s.csv: this order can't run: position 0 has no forward of micro");
  EXPECT_EQ(beginning("0F0,0F1,0B0\n", 73),
            "s.csv: this order can't run: position 0 has no backward of microbatch 1; ");
  EXPECT_EQ(beginning("0F0,2F0,2B0,0B0\n1F0,1B0,3F0,3B0\n", 63),
            "s.csv: this order can't run: the stages wait for each other: st");
}

}  // namespace
}  // namespace meshwright

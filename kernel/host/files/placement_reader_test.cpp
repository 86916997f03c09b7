#include "files/placement_reader.h"

#include <gtest/gtest.h>

#include <random>

namespace meshwright::host {
namespace {

const std::string kLoad = R"({"maxSizePerFPGA": 17, "maxFPGAs": 2, "maxCPUs": 1, "nodes": [
  {"id": 7, "supportedOnFpga": 1, "cpuLatency": 4, "fpgaLatency": 3.5, "isBackwardNode": false, "colorClass": 5, "size": 10.0},
  {"id": 3, "supportedOnFpga": false, "cpuLatency": 2, "fpgaLatency": 1, "isBackwardNode": 0},
  {"id": 9, "supportedOnFpga": true, "cpuLatency": 2, "fpgaLatency": 1, "isBackwardNode": 1, "colorClass": 5}],
  "edges": [{"sourceId": 7, "destId": 3, "cost": 0.25, "size": 8}, {"sourceId": 7, "destId": 9, "cost": 0.25}]})";

const std::string kLayers = R"({"maxDevices": 8, "maxMemoryPerDevice": 100, "bandwidth": 50, "mbsInBatch": 6, "nodes": [
  {"id": 1, "name": "in", "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 2, "parameterSize": 3, "memoryUsageA": 4,
    "memoryUsageB": 5, "syncTimeFw": {}, "syncTimeBw": {"0": 6}}]}},
  {"id": 0, "TMPCs": {"2": [], "1": [{"id": "vanilla", "timePerSample": 1, "parameterSize": 0, "memoryUsageA": 0,
    "memoryUsageB": 0, "syncTimeFw": {"1": 7}, "syncTimeBw": {}}]}}],
  "edges": [{"sourceId": 1, "destId": 0, "communicationCost": 9}]})";

const std::string kProfile =
    "node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=5.0, parameter_size=0.000\n"
    "node2 -- LSTM(2, 3) -- forward_compute_time=1.5, backward_compute_time=2.5, activation_size=[6.0; 2.0], parameter_size=7.000\n"
    "node3 -- __getitem__(1) -- forward_compute_time=0, backward_compute_time=0, activation_size=2, parameter_size=0 -- stage_id=0\n"
    "node4 -- Linear -- forward_compute_time=1, backward_compute_time=0, activation_size=2, parameter_size=3\n"
    "\tnode1 -- node2\n\tnode2 -- node3\n\tnode2 -- node4\n";

Result<PlacementProblem> parse(const std::string& text) { return parse_placement(text, "problem", {.devices = 2, .device_bytes = {}, .bytes_per_second = {}}); }

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t place = text.find(what);
  EXPECT_NE(place, std::string::npos) << what;
  return text.replace(place, what.size(), by);
}

void expect_refused(const std::string& text, const std::string& part) {
  const Result<PlacementProblem> problem = parse(text);
  ASSERT_FALSE(problem.ok()) << part;
  EXPECT_EQ(problem.error().code, ErrorCode::bad_input);
  EXPECT_NE(problem.error().message.find(part), std::string::npos) << problem.error().message;
  EXPECT_TRUE(problem.error().message.starts_with("problem: ")) << problem.error().message;
}

TEST(PlacementReader, ReadsLoads) {
  const auto any = parse_placement(kLoad, "problem", {});
  ASSERT_TRUE(any.ok()) << any.error().message;
  const auto& problem = std::get<LoadProblem>(*any);
  EXPECT_EQ(problem.accelerators, 2U);
  EXPECT_EQ(problem.hosts, 1U);
  EXPECT_EQ(problem.accelerator_bytes, 17);
  ASSERT_EQ(problem.nodes.size(), 3U);
  EXPECT_EQ(problem.nodes[0].name, "7");
  EXPECT_EQ(problem.nodes[0].accelerator_seconds, 3.5);
  EXPECT_EQ(problem.nodes[0].host_seconds, 4);
  EXPECT_EQ(problem.nodes[0].memory_bytes, 10);
  EXPECT_EQ(problem.nodes[0].transfer_seconds, 0.25);
  EXPECT_FALSE(problem.nodes[1].accelerator);
  EXPECT_TRUE(problem.nodes[2].backward);
  EXPECT_EQ(problem.nodes[0].group, problem.nodes[2].group);
  EXPECT_NE(problem.nodes[0].group, problem.nodes[1].group);
  ASSERT_EQ(problem.edges.size(), 2U);
  EXPECT_EQ(problem.edges[1].from, 0U);
  EXPECT_EQ(problem.edges[1].to, 2U);
  EXPECT_EQ(std::get<LoadProblem>(*parse_placement(kLoad, "problem", {.devices = 5, .device_bytes = 3, .bytes_per_second = {}})).accelerators, 5U);
}

TEST(PlacementReader, ReadsLayers) {
  const auto any = parse_placement(kLayers, "problem", {.devices = {}, .device_bytes = 77, .bytes_per_second = 11});
  ASSERT_TRUE(any.ok()) << any.error().message;
  const auto& problem = std::get<LayerProblem>(*any);
  EXPECT_EQ(problem.devices, 8U);
  EXPECT_EQ(problem.device_bytes, 77);
  EXPECT_EQ(problem.bytes_per_second, 11);
  EXPECT_EQ(problem.samples, 6U);
  const LayerVariant& variant = problem.nodes[0].degrees.at(0).variants.at(0);
  EXPECT_EQ(variant.seconds, 2);
  EXPECT_EQ(variant.parameter_bytes, 3);
  EXPECT_EQ(variant.bytes_per_stage_in_flight, 4);
  EXPECT_EQ(variant.fixed_bytes, 5);
  EXPECT_EQ(variant.output_bytes, std::vector<double>{6});
  EXPECT_EQ(problem.nodes[1].degrees.at(0).tensor, 1U);
  EXPECT_EQ(problem.nodes[1].degrees.at(0).variants.at(0).input_bytes, std::vector<double>{7});
  EXPECT_EQ(problem.edges.at(0).bytes, 9);
}

TEST(PlacementReader, ReadsProfiles) {
  const auto any = parse_placement(kProfile, "problem", {.devices = 3, .device_bytes = {}, .bytes_per_second = {}});
  ASSERT_TRUE(any.ok()) << any.error().message;
  const auto& problem = std::get<ReplicaProblem>(*any);
  EXPECT_EQ(problem.devices, 3U);
  EXPECT_EQ(problem.bytes_per_second, kProfileBytesPerSecond);
  ASSERT_EQ(problem.nodes.size(), 2U);  // neither the input nor the item that nobody reads
  EXPECT_EQ(problem.nodes[0].name, "node2");
  EXPECT_DOUBLE_EQ(problem.nodes[0].seconds, 0.004);
  EXPECT_EQ(problem.nodes[0].output_bytes, 8);
  EXPECT_EQ(problem.nodes[0].parameter_bytes, 7);
  ASSERT_EQ(problem.edges.size(), 1U);
  EXPECT_EQ(problem.edges[0].to, 1U);
}

TEST(PlacementReader, SaysWhatIsWrongWithLoads) {
  expect_refused("", "the file is empty");
  expect_refused("{\"nodes\": []}", "no placement problem that is known");
  expect_refused("[1, 2]", "no placement problem that is known");
  expect_refused(replaced(kLoad, "\"id\": 3", "\"id\": 7"), "nodes[1]: there is another node with id 7");
  expect_refused(replaced(kLoad, "\"id\": 3", "\"id\": \"x\""), "nodes[1].id: expected a whole number");
  expect_refused(replaced(kLoad, "\"destId\": 3", "\"destId\": 4"), "edges[0].destId: there is no node with id 4");
  expect_refused(replaced(kLoad, "\"cpuLatency\": 4", "\"cpuLatency\": -4"), "nodes[0].cpuLatency: -4 is out of range");
  expect_refused(replaced(kLoad, "\"cpuLatency\": 4", "\"cpuLatency\": 1e400"), "");
  expect_refused(replaced(kLoad, "\"cpuLatency\": 4, ", ""), "'cpuLatency' is missing");
  expect_refused(replaced(kLoad, "\"supportedOnFpga\": 1", "\"supportedOnFpga\": 2"), "at most 1");
  expect_refused(replaced(kLoad, "\"cost\": 0.25}]", "\"cost\": 0.5}]"), "different costs");
  expect_refused(replaced(kLoad, "\"maxCPUs\": 1", "\"maxCPUs\": 99999999"), "maxCPUs");
  expect_refused(replaced(kLoad, "\"destId\": 9, ", "\"destId\": 9, \"cost\": 0.25}, {\"sourceId\": 3, \"destId\": 7, "), "cycle");
  expect_refused(replaced(kLoad, "\"sourceId\": 7, \"destId\": 3", "\"sourceId\": 9, \"destId\": 3"), "backward node to a forward one");
  EXPECT_NE(parse_placement(kLoad, "problem", {.devices = {}, .device_bytes = {}, .bytes_per_second = 3}).error().message.find("--bandwidth has no use"), std::string::npos);
}

TEST(PlacementReader, SaysWhatIsWrongWithLayers) {
  expect_refused(replaced(kLayers, "\"mbsInBatch\": 6, ", ""), "'mbsInBatch' is missing");
  expect_refused(replaced(kLayers, "\"bandwidth\": 50", "\"bandwidth\": 0"), "bytes_per_second must be above 0");
  expect_refused(replaced(kLayers, "{\"1\": [{\"id\"", "{\"0\": [{\"id\""), "a number of devices");
  expect_refused(replaced(kLayers, "{\"1\": [{\"id\"", "{\"1x\": [{\"id\""), "a number of devices");
  expect_refused(replaced(kLayers, "\"syncTimeBw\": {\"0\": 6}", "\"syncTimeBw\": {}"), "the entry for node 0 is missing");
  expect_refused(replaced(kLayers, "\"syncTimeFw\": {}", "\"syncTimeFw\": {\"0\": 1}"), "to which there is no edge");
  expect_refused(replaced(kLayers, "\"syncTimeFw\": {}", "\"syncTimeFw\": {\"5\": 1}"), "no node with this id");
  expect_refused(replaced(kLayers, "\"communicationCost\": 9}", "\"communicationCost\": 9}, {\"sourceId\": 1, \"destId\": 0, \"communicationCost\": 9}"), "another edge");
  expect_refused(replaced(kLayers, "\"nodes\": [", "\"nodes\": 3, \"others\": ["), "nodes: expected an array");
}

TEST(PlacementReader, SaysWhatIsWrongWithProfiles) {
  expect_refused("hello", "line 1: a node is written as");
  expect_refused(replaced(kProfile, "forward_compute_time=1.5", "forward_compute_time=fast"), "line 2: forward_compute_time must be a number");
  expect_refused(replaced(kProfile, "forward_compute_time=1.5", "forward_compute_time=-1"), "line 2: forward_compute_time must be a number");
  expect_refused(replaced(kProfile, "forward_compute_time=1.5", "forward_compute_time=nan"), "line 2: forward_compute_time must be a number");
  expect_refused(replaced(kProfile, "[6.0; 2.0]", "[6.0; 2.0"), "line 2: activation_size");
  expect_refused(replaced(kProfile, "backward_compute_time=2.5, ", ""), "line 2: expected backward_compute_time");
  expect_refused(replaced(kProfile, "node4 -- Linear", "node2 -- Linear"), "line 4: the node node2 is there twice");
  expect_refused(kProfile + "\tnode2 -- node9\n", "line 8: there is no node node9");
  expect_refused(kProfile + "\tnode2\n", "line 8: an edge is written as");
  expect_refused(kProfile + "\tnode4 -- node2\n", "cycle");
  expect_refused(kProfile.substr(0, kProfile.find('\n')), "nothing to place");
  EXPECT_NE(parse_placement(kProfile, "problem", {}).error().message.find("add --devices N"), std::string::npos);
  EXPECT_NE(parse_placement(kProfile, "problem", {.devices = 2, .device_bytes = 5, .bytes_per_second = {}}).error().message.find("--memory has no use"), std::string::npos);
}

// Any beginning of a file, and files with bytes changed: an answer, or a sentence.
TEST(PlacementReader, NeverFallsOverBrokenFiles) {
  std::mt19937 numbers(1);
  for (const std::string& text : {kLoad, kLayers, kProfile}) {
    for (std::size_t length = 0; length < text.size(); ++length) {
      const auto cut = parse(text.substr(0, length));
      EXPECT_TRUE(text == kProfile || !cut.ok()) << length;
      EXPECT_TRUE(cut.ok() || cut.error().code == ErrorCode::bad_input) << length;
    }
    for (int i = 0; i < 3000; ++i) {
      std::string changed = text;
      for (std::size_t changes = 1 + numbers() % 3; changes > 0; --changes) {
        changed[numbers() % changed.size()] = "0129-e.\"[]{},:x\t\n\xff"[numbers() % 19];
      }
      const auto problem = parse(changed);
      EXPECT_TRUE(problem.ok() ? validate(*problem).ok() : problem.error().code == ErrorCode::bad_input) << changed;
    }
  }
}

TEST(PlacementReader, ReadsRegularFilesAlone) {
  EXPECT_NE(read_placement("/tmp", {}).error().message.find("is no regular file"), std::string::npos);
  EXPECT_NE(read_placement("/there_is_no_such_file.json", {}).error().message.find("can't be opened"), std::string::npos);
}

}  // namespace
}  // namespace meshwright::host

// meshwright_bench [--repetitions N] [WORD...]: times `plan` by phase, in this process, on the example models.
//
// Prints milliseconds, "median (min)", of each phase of PlanOutcome::phases and of the process's CPU time, in one line
// for each model and mesh whose "model mesh" contains one of the WORDs (all without any). A first run, not counted,
// brings plugins and files into memory. Asserts nothing about time.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "config/toml_config.h"
#include "plugins/pipeline.h"
#include "plugins/plugin_host.h"

namespace {

using meshwright::Result;
namespace host = meshwright::host;

struct Case {
  std::string model;
  std::string mesh;
};

const std::vector<Case> kCases = {
    {"gpt2_small", "2x4"},     {"gpt2_small", "2x2x2"},  {"gpt2_small", "8"},
    {"gpt2_map_alpha", "2x4"}, {"gpt2_map_beta", "2x4"}, {"gpt2_map_gamma", "2x4"},
    {"gpt2_map_delta", "2x4"}, {"bert_base", "2x4"},     {"vit_base", "2x4"},
};

constexpr const char* kColumns[] = {"plugins", "frontend", "strategies", "search", "comparisons", "total", "CPU"};
constexpr std::size_t kColumnCount = std::size(kColumns);

// What one run took, in seconds, in the order of kColumns.
using Sample = std::vector<double>;

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// What `meshwright plan` does, short of printing: the plugins are looked for anew in each run.
Result<Sample> run(const Case& given) {
  host::PlanOptions options;
  options.model = SOURCE_FOLDER "/examples/" + given.model + ".pt2";
  options.cluster = SOURCE_FOLDER "/configs/clusters/a100x8_nvlink_pairs.toml";
  options.config = SOURCE_FOLDER "/configs/demo.toml";
  options.mesh = given.mesh;
  const double wall = wall_seconds();
  const double cpu = cpu_seconds();
  Result<host::ConfigTree> tree = host::read_config(options.config, host::overrides_of(options));
  if (!tree) return tree.error();
  Result<host::PluginHost> plugins = host::PluginHost::open(std::move(*tree));
  if (!plugins) return plugins.error();
  const double opening = wall_seconds() - wall;
  const Result<host::PlanOutcome> outcome = host::run_pipeline(options, *plugins);
  if (!outcome) return outcome.error();
  if (!outcome->plan) return meshwright::infeasible(outcome->refusal);
  const host::PhaseSeconds& phases = outcome->phases;
  return Sample{opening + phases.plugins, phases.frontend,        phases.strategies,  phases.search,
                phases.comparisons,       opening + phases.total, cpu_seconds() - cpu};
}

void print_row(const Case& given, const std::vector<Sample>& samples) {
  std::printf("%-15s %-6s", given.model.c_str(), given.mesh.c_str());
  for (std::size_t column = 0; column < kColumnCount; ++column) {
    std::vector<double> values;
    for (const Sample& sample : samples) values.push_back(sample[column] * 1e3);
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
    char cell[48];
    std::snprintf(cell, sizeof(cell), "%.1f (%.1f)", median, values.front());
    std::printf(" %16s", cell);
  }
  std::printf("\n");
  std::fflush(stdout);
}

bool wanted(const Case& given, const std::vector<std::string>& words) {
  const std::string name = given.model + " " + given.mesh;
  return words.empty() || std::any_of(words.begin(), words.end(),
                                      [&](const std::string& word) { return name.find(word) != std::string::npos; });
}

int bench(int repetitions, const std::vector<std::string>& words) {
  std::vector<Case> cases;
  std::copy_if(kCases.begin(), kCases.end(), std::back_inserter(cases),
               [&](const Case& given) { return wanted(given, words); });
  if (cases.empty()) {
    std::fprintf(stderr, "meshwright_bench: no model and mesh contains any of the words given; known:\n");
    for (const Case& given : kCases) std::fprintf(stderr, "  %s %s\n", given.model.c_str(), given.mesh.c_str());
    return 2;
  }
  std::printf("milliseconds, median (min) of %d runs after one that is not counted\n%-15s %-6s", repetitions, "model",
              "mesh");
  for (const char* column : kColumns) std::printf(" %16s", column);
  std::printf("\n");
  for (const Case& given : cases) {
    std::vector<Sample> samples;
    for (int repetition = -1; repetition < repetitions; ++repetition) {
      Result<Sample> sample = run(given);
      if (!sample) {
        std::fprintf(stderr, "meshwright_bench: %s on %s: %s\n", given.model.c_str(), given.mesh.c_str(),
                     sample.error().message.c_str());
        return 1;
      }
      if (repetition >= 0) samples.push_back(std::move(*sample));
    }
    print_row(given, samples);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int repetitions = 11;
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--repetitions" && i + 1 < argc) {
      const std::string_view number = argv[++i];
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), repetitions);
      if (error != std::errc() || end != number.data() + number.size() || repetitions < 1) {
        std::fprintf(stderr, "meshwright_bench: --repetitions must be a positive number, not %s\n", argv[i]);
        return 2;
      }
    } else if (word.starts_with("-")) {
      std::fprintf(stderr, "usage: meshwright_bench [--repetitions N] [WORD...]\n");
      return 2;
    } else {
      words.emplace_back(word);
    }
  }
  return bench(repetitions, words);
}

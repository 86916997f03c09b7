// What one stage of a pipeline has to do with the others (stages.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace meshwright {

// A value of the model that crosses from one stage of a pipeline to others, each of which gives the stage that made it a gradient.
struct StageBoundary {
  std::string value;  // its name in the graph
  std::uint32_t from = 0;
  std::vector<std::uint32_t> to;  // ascending
  // In which dimension it has the samples of the batch, and whether it has nothing else there; nothing: in none, or nobody has looked.
  struct Batch {
    std::uint32_t dimension = 0;
    bool alone = true;
    bool operator==(const Batch&) const = default;
  };
  std::optional<Batch> batch = std::nullopt;
  bool operator==(const StageBoundary&) const = default;
};

// A parameter that several stages compute with (tied weights). Each keeps it and its optimizer's state; once a step their gradients meet.
struct SharedParameter {
  std::string name;  // in the model
  std::vector<std::uint32_t> stages;  // ascending; the first adds the gradients up
  bool operator==(const SharedParameter&) const = default;
};

// Which stage of a pipeline a plan is of (stages.h), and what that stage hands to others. By default of the only one.
struct StagePart {
  std::uint32_t stage = 0;
  std::vector<StageBoundary> boundaries;  // those that it sends or receives
  std::vector<SharedParameter> shared;    // those that it has
  std::vector<std::uint32_t> beside = {};  // other stages on the same devices, from which nothing has to travel
};

}  // namespace meshwright

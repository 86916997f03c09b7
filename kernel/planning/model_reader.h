// A model file as it is to be trained: what every command does with a model before it asks for anything else.
#pragma once

#include <string>
#include <vector>

#include "meshwright/config.h"
#include "meshwright/frontend.h"
#include "meshwright/graph.h"
#include "meshwright/op.h"
#include "meshwright/result.h"
#include "meshwright/training.h"

namespace meshwright {

struct TrainedModel {
  Graph graph;  // with the loss, the batch size and the dtype that the configuration asks for
  TrainingSettings training;
  std::vector<std::string> refused_composites;  // sentences: what looks like a composite op, and why it is none
};

// A model file before anything says how it is trained: with its loss and batch size.
struct ReadModel {
  std::string path;
  Graph graph;
  std::vector<std::string> refused_composites;
};

// `model` and `train` are those sections of the configuration. Errors: those of the frontend, bad_input for settings that do
// not suit the model.
Result<ReadModel> read_whole_model(const std::string& path, const Frontend& frontend, const OpTable& ops, const Config& model);
// Of a dtype, and in microbatches.
Result<TrainedModel> as_trained(ReadModel read, const OpTable& ops, const Config& train);
// Both.
Result<TrainedModel> read_model(const std::string& path, const Frontend& frontend, const OpTable& ops, const Config& model,
                                const Config& train);

}  // namespace meshwright

#include "model_reader.h"

#include "attach_loss.h"
#include "meshwright/rebind.h"
#include "meshwright/step_order.h"
#include "microbatches.h"
#include "open_dimensions.h"

namespace meshwright {

namespace {

DType dtype_of(const std::string& name) {
  if (name == "bf16") return DType::bfloat16;
  if (name == "fp16") return DType::float16;
  return DType::float32;
}

Status read_training(const Config& train, TrainedModel& model) {
  Result<Optimizer> optimizer = parse_optimizer(train.text("optimizer"));
  if (!optimizer) return optimizer.error();
  model.training.optimizer = *optimizer;
  model.training.master_dtype = dtype_of(train.text("master_dtype"));
  const std::string& dtype = train.text(train.text("dtype") != "exported" ? "dtype" : "param_dtype");
  if (dtype != "exported") {
    model.training.param_dtype = dtype_of(dtype);
    retype(model.graph, *model.training.param_dtype);
  }
  if (const std::string& reduce = train.text("reduce_dtype"); reduce != "dtype") model.training.reduce_dtype = dtype_of(reduce);
  model.training.microbatches = train.integer("microbatches");
  model.training.order = train.text("order");
  if (Result<StepOrder> order = step_order(model.training); !order) return add_context("\"order\" in [train]", order.error());
  model.training.attention = train.text("attention");
  model.training.tf32 = train.boolean("tf32");
  model.training.cuda_graphs = train.boolean("cuda_graphs");
  model.training.compile = train.boolean("compile");
  model.training.keep_gradients = train.text("gradients") == "kept";
  return Done{};
}

}  // namespace

Result<ReadModel> read_whole_model(const std::string& path, const Frontend& frontend, const OpTable& ops, const Config& model) {
  Result<OpenDimensions> open = open_dimensions(model);
  if (!open) return open.error();
  Result<Graph> graph = frontend.read(path, *open);
  if (!graph) return graph.error();
  drop_dead_nodes(*graph);
  if (Status status = attach_loss(*graph, loss_settings(model)); !status)
    return add_context(path, status.error());
  Result<std::vector<std::string>> refused = gather_composites(*graph, ops);
  if (!refused) return add_context(path, refused.error());
  if (const std::int64_t batch = model.integer("batch"); batch > 0) {
    graph = rebind_batch(*graph, ops, batch);
    if (!graph) return add_context(path, graph.error());
  }
  return ReadModel{path, std::move(*graph), std::move(*refused)};
}

Result<TrainedModel> as_trained(ReadModel read, const OpTable& ops, const Config& train) {
  TrainedModel trained{std::move(read.graph), {}, std::move(read.refused_composites)};
  if (Status status = read_training(train, trained); !status) return status.error();
  Result<Graph> graph = cut_into_microbatches(std::move(trained.graph), ops, trained.training.microbatches, train.text("batch_coupling") == "allow");
  if (!graph) return add_context(read.path, graph.error());
  trained.graph = std::move(*graph);
  return trained;
}

Result<TrainedModel> read_model(const std::string& path, const Frontend& frontend, const OpTable& ops, const Config& model, const Config& train) {
  Result<ReadModel> read = read_whole_model(path, frontend, ops, model);
  if (!read) return read.error();
  return as_trained(std::move(*read), ops, train);
}

}  // namespace meshwright

// Images that are read at the places of a grid.
#include <utility>
#include <vector>

#include "kernels/runs.h"
#include "kernels/sampling.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

constexpr std::string_view kSampledImageGradient = "meshwright.grid_sampler_backward_input",
                           kSampledGridGradient = "meshwright.grid_sampler_backward_grid";

struct Sampling {
  SamplingArguments arguments;
  std::vector<Range> reads;
};

Result<Sampling> begin_sampling(OpWriter& writer, const TensorType& image) {
  const Node& node = writer.call.node;
  const TensorType& grid = writer.operand("grid")->type;
  if (image.rank() != 4 || node.integer("interpolation_mode", 0) > 1)
    return bad_input("cuda has no kernel for " + node.op + " of " + to_string(image) + ", or one that is bicubic");
  Sampling sampling;
  SamplingArguments& a = sampling.arguments;
  a.outside = static_cast<Outside>(node.integer("padding_mode", 0));
  a.align_corners = node.boolean("align_corners", false);
  a.nearest = node.integer("interpolation_mode", 0) == 1;
  a.channels = image.shape[1];
  a.height = image.shape[2];
  a.width = image.shape[3];
  a.places = grid.shape[1] * grid.shape[2];
  const std::pair<const char*, View*> named[] = {{"grid", &a.grid}, {"input", &a.image}, {"grad_output", &a.gradient}};
  if (Status status = writer.view_in_rows(named, sampling.reads); !status) return status.error();
  const Result<View> made = view_for(writer.results[0], {});
  if (!made) return made.error();
  a.result = *made;
  return sampling;
}

// What it reads, or the gradient of the grid.
Status write_sampling(OpWriter& writer) {
  const Seen& result = writer.results[0];
  const bool of_grid = writer.call.node.op == kSampledGridGradient;
  Result<Sampling> sampling = begin_sampling(writer, writer.operand("input")->type);
  if (!sampling) return sampling.error();
  writer.launch(of_grid ? KernelId::sample_grid_gradient : KernelId::sample_grid, sampling->arguments,
                of_grid ? result.type.elements() / 2 : result.type.elements(), std::move(sampling->reads),
                {result.range()});
  return Done{};
}

// Pixels get what each place gives to its taps: runs of positions that name them.
Status write_image_gradient(OpWriter& writer) {
  const Seen& result = writer.results[0];
  Result<Sampling> sampling = begin_sampling(writer, result.type);
  if (!sampling) return sampling.error();
  if (Status status = fill_with(writer, 0, result); !status) return status;
  SamplingArguments& a = sampling->arguments;
  const std::int64_t images = result.type.shape[0], taps = taps_of_place(a);
  const Seen starts = row_starts(writer, images * a.places * taps),
             shares = writer.in_scratch(DType::float64, {starts.type.elements()});
  RunArguments runs;
  a.starts = reinterpret_cast<std::int64_t*>(starts.data);
  runs.shares = a.shares = reinterpret_cast<double*>(shares.data);
  writer.launch(KernelId::sample_taps, a, starts.type.elements(), sampling->reads, {starts.range(), shares.range()});
  runs.columns = runs.column_sizes.of[0] = a.channels;
  runs.column_sizes.rank = 1;
  runs.value_strides[0] = a.places;
  runs.table_strides[0] = a.height * a.width;
  runs.values = a.gradient;
  const std::int64_t sizes[] = {images, a.places, taps}, strides[] = {a.channels * a.places, 1, 0};
  runs.position_sizes.rank = 3;
  for (int d = 0; d < 3; ++d) {
    runs.position_sizes.of[d] = sizes[d];
    runs.values.strides[d] = strides[d];
  }
  runs.table = a.result;
  sampling->reads.push_back(shares.range());
  return put_rows(writer, runs, starts, std::move(sampling->reads), result.range());
}

}  // namespace

WriteOp sampling_op(std::string_view op) {
  if (op == kSampledImageGradient) return write_image_gradient;
  const bool is_one = op == "aten.grid_sampler" || op == "aten.grid_sampler_2d" || op == kSampledGridGradient;
  return is_one ? write_sampling : nullptr;
}

}  // namespace meshwright::cuda

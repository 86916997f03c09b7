// A cluster's file and its device's, divided by a line "#device"; and the same text as a configuration.
#include "config/toml_config.h"
#include "meshwright/cluster.h"
#include "meshwright/cost.h"
#include "meshwright/mesh.h"
#include "mutate.h"
#include "target.h"

using namespace meshwright;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::shared_ptr<ClusterSource> clusters =
      fuzz::plugins().create<ClusterSource>("clusters", "file").value();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t middle = std::min(input.find("#device\n"), input.size());
  const fuzz::MemoryFile device(input.substr(middle));
  const fuzz::MemoryFile file("device = \"" + device.path() + "\"\n" + std::string(input.substr(0, middle)));
  const Result<Cluster> cluster = clusters->describe(file.path());
  if (!cluster) fuzz::expect_refusal(cluster.error());
  if (const auto config = host::parse_config(input, "config.toml", {}); !config) fuzz::expect_refusal(config.error());
  if (!cluster || cluster->devices() > 4096) return 0;
  for (const auto& shape : candidate_shapes(*cluster, 3)) {
    const Result<Mesh> mesh = make_mesh(*cluster, shape);
    if (!mesh) {
      fuzz::expect_refusal(mesh.error());
      continue;
    }
    for (const MeshAxis& axis : mesh->axes) (void)to_ticks(collective_seconds(CollectiveKind::all_reduce, axis, 1e15));
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return fuzz::mutate_toml(data, size, most, seed);
}

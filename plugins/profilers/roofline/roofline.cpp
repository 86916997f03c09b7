// The profile that needs no measuring: a device's own rates and efficiencies, as its description gives them.
#include <iterator>

#include "meshwright/cost.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr meshwright_config_key_v1 kSchema[] = {
    {"bucket_bytes", "bytes", "bytes", "\"25MB\"", "largest buckets that gradient reductions are packed into, and units of gathers"}};

class Roofline final : public Profiler {
 public:
  explicit Roofline(std::int64_t bucket_bytes) : bucket_bytes_(bucket_bytes) {}

 private:
  Result<CostProfile> do_profile(const Cluster& cluster) const override {
    return CostProfile{cluster.device, bucket_bytes_};
  }

  std::int64_t bucket_bytes_;
};

void* create(const Config& config, Error& error) {
  const std::int64_t bytes = config.integer("bucket_bytes");
  if (bytes > 0) return static_cast<Profiler*>(new Roofline(bytes));
  error = bad_input("bucket_bytes must be more than 0");
  return nullptr;
}

}  // namespace

MESHWRIGHT_PLUGIN("profilers", "roofline", "0.1.0", "Apache-2.0", "Rates and efficiencies from the device's description",
                  nullptr, kSchema, std::size(kSchema), create, destroy_plugin<Profiler>)

}  // namespace meshwright

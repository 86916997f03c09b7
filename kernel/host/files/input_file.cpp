#include "files/input_file.h"

#include <filesystem>

#include "files/file_hash.h"

namespace meshwright::host {

Status check_regular(const std::string& path) {
  std::error_code failure;
  const std::filesystem::file_status status = std::filesystem::status(path, failure);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return Done{};
  return bad_input(path + ": is no regular file; give a file that is stored on disk");
}

Status check_planned_model(const Plan& plan, bool allow_changed) {
  std::error_code failure;
  if (allow_changed || !std::filesystem::is_regular_file(plan.model_path, failure)) return Done{};
  const std::string hash = hash_file(plan.model_path);
  if (hash == plan.model_hash) return Done{};
  return bad_input("the model " + plan.model_path + " has changed since it was planned (" + plan.model_hash + ", now " +
                   hash + "); plan it again, or say --allow-changed-model to use the plan as it is");
}

}  // namespace meshwright::host

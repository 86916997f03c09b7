#include "files/write_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

namespace meshwright::host {
namespace {

namespace fs = std::filesystem;

Error failed(const std::string& path) { return bad_input(path + ": can't be written (" + std::strerror(errno) + ")"); }

bool write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Writes a new file or an existing special one; on failure errno says why.
bool write_to(const std::string& path, int flags, mode_t mode, std::string_view content) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, mode);
  if (file < 0) return false;
  const bool written = write_all(file, content);
  const int reason = errno;
  const bool closed = ::close(file) == 0;
  if (!written) errno = reason;
  return written && closed;
}

// No signal that a person sends ends the program before the new file has its name: what it would leave is a file that
// nobody wants. It is delivered right behind.
class SignalsWait {
 public:
  SignalsWait() {
    sigset_t ending;
    sigemptyset(&ending);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) sigaddset(&ending, signal);
    pthread_sigmask(SIG_BLOCK, &ending, &before_);
  }
  ~SignalsWait() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  sigset_t before_{};
};

// A file without a name while it is written, so that no end of the program, not even SIGKILL, leaves a part of it; it gets
// the name `temporary` when it is whole. Nothing: this file system has no such files.
std::optional<bool> write_nameless(const fs::path& folder, const std::string& temporary, mode_t mode, std::string_view content) {
  const int file = ::open(folder.empty() ? "." : folder.c_str(), O_WRONLY | O_CLOEXEC | O_TMPFILE, mode);
  if (file < 0) return std::nullopt;
  const std::string name = "/proc/self/fd/" + std::to_string(file);
  const bool written = write_all(file, content);
  const int reason = errno;
  const bool named = written && ::linkat(AT_FDCWD, name.c_str(), AT_FDCWD, temporary.c_str(), AT_SYMLINK_FOLLOW) == 0;
  ::close(file);
  if (written && !named) return std::nullopt;
  if (!written) errno = reason;
  return written;
}

}  // namespace

Status write_file_atomically(const std::string& path, std::string_view content) {
  std::error_code ignored;
  fs::path target = path;
  mode_t mode = 0666;
  if (const fs::file_status status = fs::status(target, ignored); fs::exists(status)) {
    if (!fs::is_regular_file(status)) {
      if (!write_to(path, 0, 0, content)) return failed(path);
      return Done{};
    }
    mode = static_cast<mode_t>(status.permissions()) & 0777;
    target = fs::canonical(target, ignored);  // so that a link stays a link
  } else if (target.has_parent_path()) {
    fs::create_directories(target.parent_path(), ignored);
  }
  const std::string temporary = target.string() + ".part" + std::to_string(::getpid());
  const SignalsWait wait;
  const std::optional<bool> nameless = write_nameless(target.parent_path(), temporary, mode, content);
  const bool written = nameless ? *nameless : write_to(temporary, O_CREAT | O_EXCL, mode, content);
  if (!written || std::rename(temporary.c_str(), target.c_str()) != 0) {
    const Error error = failed(path);
    ::unlink(temporary.c_str());
    return error;
  }
  return Done{};
}

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

}  // namespace meshwright::host

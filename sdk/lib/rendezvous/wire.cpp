#include "wire.h"

#include <cstring>

namespace meshwright {

namespace asio = boost::asio;

namespace {

constexpr std::uint32_t kMagic = 0x3157534dU;  // of this protocol, and of this order of bytes

struct Header {
  std::uint32_t magic = kMagic, kind = 0;
  std::int32_t peer = 0;
  std::uint32_t unused = 0;
  std::uint64_t number = 0, bytes = 0;
};
static_assert(sizeof(Header) == 32);

}  // namespace

void Wire::read(OnFrame on_frame, OnLost on_lost) {
  on_frame_ = std::move(on_frame);
  on_lost_ = std::move(on_lost);
  if (!std::exchange(reads_, true)) read_header();
}

void Wire::read_header() {
  asio::async_read(
      socket_, asio::buffer(header_), [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
        if (!self->on_frame_) return;
        if (error) return self->lose(error.message());
        Header header;
        std::memcpy(&header, self->header_.data(), sizeof header);
        if (header.magic != kMagic || header.kind > static_cast<std::uint32_t>(kLastKind) || header.bytes > self->most_)
          return self->lose("what came is no message of meshwright's");
        self->read_content({static_cast<FrameKind>(header.kind), header.peer, header.number, {}}, header.bytes);
      });
}

void Wire::read_content(Frame frame, std::uint64_t bytes) {
  content_.resize(bytes);
  asio::async_read(socket_, asio::buffer(content_),
                   [self = shared_from_this(), frame = std::move(frame)](const boost::system::error_code& error,
                                                                         std::size_t) mutable {
                     if (!self->on_frame_) return;
                     if (error) return self->lose(error.message());
                     self->heard_at_ = std::chrono::steady_clock::now();
                     frame.content = std::exchange(self->content_, {});
                     const OnFrame on_frame = self->on_frame_;  // which may close this
                     on_frame(std::move(frame));
                     if (self->on_frame_) self->read_header();
                   });
}

std::shared_ptr<const std::string> Wire::packed(const Frame& frame) {
  Header header;
  header.kind = static_cast<std::uint32_t>(frame.kind);
  header.peer = frame.peer;
  header.number = frame.number;
  header.bytes = frame.content.size();
  std::string bytes(sizeof header, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  return std::make_shared<const std::string>(bytes + frame.content);
}

void Wire::write(std::shared_ptr<const std::string> packed) {
  if (closes_) return;
  outgoing_.push_back(std::move(packed));
  if (outgoing_.size() == 1) write_next();
}

void Wire::write_next() {
  asio::async_write(socket_, asio::buffer(*outgoing_.front()),
                    [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                      if (error) return self->outgoing_.clear();  // whoever reads finds out
                      self->outgoing_.pop_front();
                      if (!self->outgoing_.empty()) return self->write_next();
                      if (self->closes_) self->close();
                    });
}

void Wire::close(bool flushes) {
  on_frame_ = nullptr;
  on_lost_ = nullptr;
  closes_ = true;
  if (flushes && !outgoing_.empty()) return;
  boost::system::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

void Wire::lose(const std::string& why) {
  const OnLost on_lost = std::exchange(on_lost_, nullptr);
  on_frame_ = nullptr;
  if (on_lost) on_lost(why);
}

}  // namespace meshwright

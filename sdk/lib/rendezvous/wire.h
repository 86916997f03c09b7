// One end of a connection between a process and the hub: frames, whole, in order. All of it on the thread that runs its
// io_context.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <boost/asio.hpp>  // whose version 1.74 needs <utility> before it

namespace meshwright {

// How often each end says that it is alive, and after which silence it is taken for dead.
inline constexpr std::chrono::seconds kBeat{1}, kSilence{30};
// Of a frame's content, in bytes: of one who has not said who it is, and of one that has.
inline constexpr std::uint64_t kMostOfStranger = 4096, kMostBytes = std::uint64_t{1} << 30;

enum class FrameKind : std::uint32_t {
  hello,      // to the hub: `peer` is the rank, `number` the size of the world, the content who it is
  welcome,    // all have come
  refused,    // the content says why
  exchange,   // to the hub: what all are to have, with a name (exchange.h)
  announced,  // likewise, without what is given: that it comes next
  given,      // of an exchange: what each rank gave
  letter,     // `peer`: to whom, or from whom; `number`: the channel
  failed,     // to the hub: `number` is the error's code, the content its message
  ended,      // the same to all: they end
  alive,
  bye,    // to the hub: this process is done, or has said why it ends
  leave,  // all have said so
};
inline constexpr auto kLastKind = FrameKind::leave;

struct Frame {
  FrameKind kind = FrameKind::alive;
  std::int32_t peer = 0;
  std::uint64_t number = 0;
  std::string content = {};
};

class Wire : public std::enable_shared_from_this<Wire> {
 public:
  // A frame that came whole; and that the connection is lost, or gave what is no frame: then nothing more comes.
  using OnFrame = std::function<void(Frame)>;
  using OnLost = std::function<void(const std::string& why)>;

  explicit Wire(boost::asio::ip::tcp::socket socket) : socket_(std::move(socket)) {
    boost::system::error_code ignored;
    socket_.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  }

  // Begins to read, or goes on for another one. Both stay until `close`.
  void read(OnFrame on_frame, OnLost on_lost);
  void write(const Frame& frame) { write(packed(frame)); }
  // The same one to several.
  void write(std::shared_ptr<const std::string> packed);
  static std::shared_ptr<const std::string> packed(const Frame& frame);
  // Nothing is told any more. What is written before goes out first where `flushes`.
  void close(bool flushes = false);

  void trust() { most_ = kMostBytes; }
  [[nodiscard]] std::chrono::steady_clock::time_point heard_at() const { return heard_at_; }

 private:
  void read_header();
  void read_content(Frame frame, std::uint64_t bytes);
  void write_next();
  void lose(const std::string& why);

  boost::asio::ip::tcp::socket socket_;
  OnFrame on_frame_;
  OnLost on_lost_;
  std::uint64_t most_ = kMostOfStranger;
  std::chrono::steady_clock::time_point heard_at_ = std::chrono::steady_clock::now();
  std::array<char, 32> header_{};
  std::string content_;
  std::deque<std::shared_ptr<const std::string>> outgoing_;
  bool reads_ = false, closes_ = false;
};

}  // namespace meshwright

// runtime/kv_events/frames.hpp: what both sockets of the publisher send, and how they start to listen.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <zmq.hpp>

namespace mortise {

// Bytes that the replay buffer and several readers' queues hold at the same time, without a copy for each.
using Payload = std::shared_ptr<const std::string>;

std::string seq_bytes(std::uint64_t seq);  // 8 bytes, big endian
std::uint64_t read_seq(std::string_view bytes);

zmq::message_t copied_frame(std::string_view bytes);
// Holds `payload` until ZeroMQ has written the frame to the last reader's connection or has dropped it. ZeroMQ's thread
// then lets go of it.
zmq::message_t shared_frame(const Payload& payload);

// Sends the frames as one message. Never waits: a reader that is gone or too far behind misses the message.
void send_message(zmq::socket_t& socket, std::initializer_list<zmq::message_t*> frames);

// Sets the limits of a socket that anybody may write to, and listens. `option` names the endpoint in errors. Returns
// the endpoint with the port that was taken. Throws an Error, with kUnavailable when another process listens there.
std::string listen_at(zmq::socket_t& socket, const std::string& endpoint, const char* option);

}  // namespace mortise

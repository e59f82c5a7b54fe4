#include "server/tls.hpp"

#include "error.hpp"

namespace mortise {

boost::asio::ssl::context load_tls(const std::string& certificate, const std::string& key) {
  namespace ssl = boost::asio::ssl;
  ssl::context context(ssl::context::tls_server);
  context.set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 | ssl::context::no_sslv3 |
                      ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1);
  boost::system::error_code error;
  context.use_certificate_chain_file(certificate, error);
  if (error) fail("{}: it has no certificate chain in PEM form that can be read: {}", certificate, error.message());
  context.use_private_key_file(key, ssl::context::pem, error);
  if (error)
    fail("{}: it has no private key of {} in PEM form that can be read: {}", key, certificate, error.message());
  return context;
}

}  // namespace mortise

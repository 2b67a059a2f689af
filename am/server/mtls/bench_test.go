package mtls_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"testing"

	"patchbay/am/server/mtls"
)

// The benchmarks compare with crypto/tls, using certificates that it can read. Client and
// server share the machine, so compare the ratio. Both ends have RSA-2048 keys; the client
// sends two certificates.

// stacks are the two servers, each as a function from an inner listener.
func stacks(b *testing.B) map[string]func(net.Listener) net.Listener {
	ctx, err := mtls.New(mtls.Config{Keys: keys(b, "server")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(ctx.Close)
	pair, err := tls.LoadX509KeyPair(file(b, "server.crt"), file(b, "rsa.key"))
	if err != nil {
		b.Fatal(err)
	}
	std := &tls.Config{
		Certificates:           []tls.Certificate{pair},
		ClientAuth:             tls.RequireAnyClientCert,
		SessionTicketsDisabled: true,
	}
	return map[string]func(net.Listener) net.Listener{
		"mtls":       ctx.Listener,
		"crypto-tls": func(l net.Listener) net.Listener { return tls.NewListener(l, std) },
	}
}

// compare runs f once with each stack.
func compare(b *testing.B, h http.Handler, f func(b *testing.B, addr string)) {
	listeners := stacks(b)
	for _, name := range []string{"mtls", "crypto-tls"} {
		b.Run(name, func(b *testing.B) {
			inner, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			srv := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
			stopped := make(chan bool)
			go func() { srv.Serve(listeners[name](inner)); close(stopped) }()
			defer func() { srv.Close(); <-stopped }()
			b.ReportAllocs()
			f(b, inner.Addr().String())
		})
	}
}

// plain is an identity that crypto/tls can read.
func plain(b *testing.B, version uint16) *tls.Config {
	id := identity(b, "rsa", "server", "server-new")
	return tlsConfig(id, version)
}

const getPage = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

func BenchmarkHandshake(b *testing.B) {
	for name, v := range versions {
		b.Run(name, func(b *testing.B) {
			compare(b, sumHandler, func(b *testing.B, addr string) {
				cfg := plain(b, v)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						c, err := tls.Dial("tcp", addr, cfg)
						if err == nil {
							_, err = roundTrip(c, bufio.NewReader(c), getPage)
							c.Close()
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "handshakes/s")
			})
		})
	}
}

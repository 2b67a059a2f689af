package netlab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"
)

// serve starts the web servers and the name server of the Internet. If web is nil, the answer to
// each web request is its URL.
func (b *Lab) serve(t testing.TB, web http.Handler) error {
	if web == nil {
		web = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s%s\n", r.Host, r.URL.Path)
		})
	}
	certificates, err := b.certificates()
	if err != nil {
		return err
	}
	var all []io.Closer
	t.Cleanup(func() {
		for _, c := range all {
			c.Close()
		}
	})
	return b.internet.do(func() error {
		plain, err := net.Listen("tcp4", ":80")
		if err != nil {
			return err
		}
		secret, err := net.Listen("tcp4", ":443")
		if err != nil {
			return err
		}
		// Listen at Names only, so that answers have this source address.
		packets, err := net.ListenPacket("udp4", Names+":53")
		if err != nil {
			return err
		}
		streams, err := net.Listen("tcp4", ":53")
		if err != nil {
			return err
		}
		all = append(all, plain, secret, packets, streams)
		go func() { _ = http.Serve(plain, web) }()
		go func() {
			_ = http.Serve(tls.NewListener(secret, &tls.Config{GetCertificate: certificates}), web)
		}()
		go answerPackets(packets)
		go answerStreams(streams)
		return nil
	})
}

// certificates returns a function that issues a certificate for the name or address that a TLS
// client requests.
func (b *Lab) certificates() (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "lab"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	signed, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	b.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		leaf := &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "web"},
			NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}
		if hello.ServerName != "" {
			leaf.DNSNames = []string{hello.ServerName}
		} else if a, ok := hello.Conn.LocalAddr().(*net.TCPAddr); ok {
			leaf.IPAddresses = []net.IP{a.IP}
		}
		der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, key)
		if err != nil {
			return nil, err
		}
		return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
	}, nil
}

func answerPackets(c net.PacketConn) {
	b := make([]byte, 4096)
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		if a := reply(b[:n]); a != nil {
			_, _ = c.WriteTo(a, from)
		}
	}
}

func answerStreams(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			var size uint16
			for binary.Read(c, binary.BigEndian, &size) == nil {
				b := make([]byte, size)
				if _, err := io.ReadFull(c, b); err != nil {
					return
				}
				a := reply(b)
				if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(a))), a...)); err != nil {
					return
				}
			}
		}()
	}
}

// reply answers a query of type A with the address Web, and other queries with no records. It
// returns nil for a message that is not a query.
func reply(question []byte) []byte {
	const header = 12
	end := header
	for end < len(question) && question[end] != 0 { // the name
		end += int(question[end]) + 1
	}
	end += 5 // the end of the name, the type and the class
	if len(question) < end || question[2]&0x80 != 0 {
		return nil
	}
	a := append([]byte{}, question[:end]...)
	a[2], a[3] = 0x81, 0x80 // an answer; recursion desired and available
	copy(a[4:], []byte{0, 1, 0, 0, 0, 0, 0, 0})
	if binary.BigEndian.Uint16(question[end-4:]) == 1 {
		a[7] = 1
		a = append(a, 0xc0, header, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4)
		a = append(a, net.ParseIP(Web).To4()...)
	}
	return a
}

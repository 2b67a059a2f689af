package mtls

/*
#cgo pkg-config: libssl libcrypto
#cgo CFLAGS: -Wall -Wextra -Wno-unused-parameter
#include <stdlib.h>
#include "openssl.h"

#cgo noescape mtls_handshake
#cgo nocallback mtls_handshake
#cgo noescape mtls_read
#cgo nocallback mtls_read
#cgo noescape mtls_write
#cgo nocallback mtls_write
#cgo noescape mtls_shutdown
#cgo nocallback mtls_shutdown
#cgo noescape mtls_drain
#cgo nocallback mtls_drain
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// Error is an error of OpenSSL, with its text.
type Error struct {
	Op     string // "handshake", "read" or "write"
	Reason string
}

func (e *Error) Error() string { return "tls " + e.Op + ": " + e.Reason }

// keyring is an SSL_CTX: the keys and settings that sessions are made from.
type keyring struct{ ctx *C.SSL_CTX }

func newKeyring(c Config) (keyring, error) {
	var sha1 C.int
	if c.SHA1Handshakes {
		sha1 = 1
	}
	var why *C.char
	ctx := C.mtls_context_new(sha1, &why)
	if ctx == nil {
		return keyring{}, fmt.Errorf("cannot set up TLS: %s", goText(why))
	}
	k := keyring{ctx}
	fileOf := make(map[C.int]string) // by algorithm
	for _, pair := range c.Keys {
		kind, err := k.add(pair)
		if err == nil && fileOf[kind] != "" {
			err = fmt.Errorf("key files %s and %s hold keys of the same algorithm; configure one key of each algorithm", fileOf[kind], pair.KeyFile)
		}
		if err != nil {
			k.free()
			return keyring{}, err
		}
		fileOf[kind] = pair.KeyFile
	}
	return k, nil
}

// add returns the number of the key's algorithm.
func (k keyring) add(p KeyPair) (C.int, error) {
	chain, err := readCertificates(p.CertFile)
	if err != nil {
		return 0, fmt.Errorf("cannot read certificate: %w", err)
	}
	key, err := readKey(p.KeyFile)
	if err != nil {
		return 0, fmt.Errorf("cannot read private key: %w", err)
	}
	r := C.mtls_context_add_key(k.ctx, unsafe.Pointer(unsafe.SliceData(chain)), C.int(len(chain)),
		unsafe.Pointer(unsafe.SliceData(key)), C.int(len(key)))
	why := goText(r.why)
	switch r.state {
	case C.MTLS_KEY_OK:
		return r.kind, nil
	case C.MTLS_KEY_BAD_CERTIFICATE:
		return 0, fmt.Errorf("cannot use the certificates in %s: %s", p.CertFile, why)
	case C.MTLS_KEY_ENCRYPTED:
		return 0, fmt.Errorf("the private key in %s has a pass phrase: write a copy without one with openssl pkey -in %[1]s -out NEWFILE", p.KeyFile)
	case C.MTLS_KEY_MISMATCH:
		return 0, fmt.Errorf("the private key in %s does not belong to the first certificate in %s", p.KeyFile, p.CertFile)
	}
	return 0, fmt.Errorf("cannot use the private key in %s: %s", p.KeyFile, why)
}

// free does not end sessions: OpenSSL frees the SSL_CTX with its last session.
func (k keyring) free() { C.mtls_context_free(k.ctx) }

// session is an SSL object with its two memory BIOs. It is not safe for concurrent use,
// and must be freed exactly once.
type session struct{ ssl *C.SSL }

var errNoMemory = errors.New("OpenSSL is out of memory")

// newSession returns a session that keeps the SSL_CTX alive.
func (k keyring) newSession() (session, error) {
	s := session{C.mtls_new(k.ctx)}
	if s.ssl == nil {
		return s, errNoMemory
	}
	return s, nil
}

func (s session) free() { C.mtls_free(s.ssl) }

type state int

const (
	done state = C.MTLS_DONE
	more state = C.MTLS_MORE // it needs bytes from the peer
	eof  state = C.MTLS_EOF  // the peer has sent close_notify
)

type result struct {
	state   state
	n       int // bytes of plain text that were read or written
	out     int // bytes for the peer that are now in the given buffer
	pending int // bytes for the peer that still wait in the session
}

func goResult(op string, r C.mtls_result) (result, error) {
	g := result{state(r.state), int(r.n), int(r.out), int(r.pending)}
	if r.state == C.MTLS_FAILED {
		return g, &Error{Op: op, Reason: goText(r.why)}
	}
	return g, nil
}

// In the following, p comes from the caller of a net.Conn and may be a part of
// a struct that holds pointers (net/http reads single bytes into one). The runtime's pointer
// check accepts such an address only if the expression &p[0] is an argument of the call
// itself. The other arguments are buffers of this package.

func (s session) handshake(received []byte) (result, error) {
	return goResult("handshake", C.mtls_handshake(s.ssl, unsafe.Pointer(unsafe.SliceData(received)), C.int(len(received))))
}

// read decrypts into p, which must not be empty. received holds bytes from the peer.
func (s session) read(p, received []byte) (result, error) {
	return goResult("read", C.mtls_read(s.ssl, unsafe.Pointer(&p[0]), C.int(min(len(p), maxRecord)),
		unsafe.Pointer(unsafe.SliceData(received)), C.int(len(received))))
}

// write encrypts the beginning of p into buf. p must not be empty.
func (s session) write(p, buf []byte) (result, error) {
	return goResult("write", C.mtls_write(s.ssl, unsafe.Pointer(&p[0]), C.int(min(len(p), maxWrite)),
		unsafe.Pointer(unsafe.SliceData(buf)), C.int(len(buf))))
}

func (s session) shutdown(buf []byte) result {
	r, _ := goResult("", C.mtls_shutdown(s.ssl, unsafe.Pointer(unsafe.SliceData(buf)), C.int(len(buf))))
	return r
}

// drain moves bytes for the peer into buf.
func (s session) drain(buf []byte) result {
	r, _ := goResult("", C.mtls_drain(s.ssl, unsafe.Pointer(unsafe.SliceData(buf)), C.int(len(buf))))
	return r
}

// peers returns copies of the certificates that the peer sent, leaf first.
func (s session) peers() [][]byte {
	var chain [][]byte
	for {
		var der *C.uchar
		n := C.mtls_peer(s.ssl, C.int(len(chain)), &der)
		if n == 0 {
			return chain
		}
		chain = append(chain, C.GoBytes(unsafe.Pointer(der), n))
		C.mtls_peer_free(der)
	}
}

// goText returns the text s, which C has allocated, and frees it.
func goText(s *C.char) string {
	if s == nil {
		return ""
	}
	defer C.free(unsafe.Pointer(s))
	return C.GoString(s)
}

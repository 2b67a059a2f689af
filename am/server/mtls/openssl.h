// The face of libssl that this package uses: a few whole operations, so that
// an operation and the reading of its errors never straddle two calls.
// (OpenSSL keeps its error queue per thread; a goroutine may change threads
// between two calls into C, never within one.)

#ifndef PATCHBAY_MTLS_OPENSSL_H
#define PATCHBAY_MTLS_OPENSSL_H

#include <openssl/ssl.h>

// How an operation ended.
enum {
	MTLS_DONE,   // n bytes, or the handshake, are done
	MTLS_MORE,   // feed it more bytes from the peer
	MTLS_EOF,    // the peer sent close_notify
	MTLS_FAILED, // permanently; why is the reason
};

typedef struct {
	int state;
	int n;       // bytes read or written by the caller
	int out;     // bytes put into the caller's out buffer
	int pending; // bytes that still wait to be sent
	char *why;   // NULL, or a text the caller frees with free()
} mtls_result;

// How loading a key pair ended.
enum {
	MTLS_KEY_OK,
	MTLS_KEY_BAD_CERTIFICATE,
	MTLS_KEY_ENCRYPTED,
	MTLS_KEY_BAD_KEY,
	MTLS_KEY_MISMATCH,
	MTLS_KEY_REFUSED,
};

typedef struct {
	int state;
	int kind;  // the OpenSSL number of the key's algorithm
	char *why; // as in mtls_result
} mtls_key_result;

// mtls_context_new makes a context without keys; NULL, and *why, when it cannot.
SSL_CTX *mtls_context_new(int sha1, char **why);

// mtls_context_add_key adds a chain, leaf first, and the key of its leaf; both are PEM.
mtls_key_result mtls_context_add_key(SSL_CTX *ctx, const void *chain, int chain_len, const void *key, int key_len);

void mtls_context_free(SSL_CTX *ctx);

// mtls_new makes the server side of one connection, NULL when out of memory.
SSL *mtls_new(SSL_CTX *ctx);

// These two take what has just arrived from the peer, in, which may be empty.
mtls_result mtls_handshake(SSL *ssl, const void *in, int in_len);
mtls_result mtls_read(SSL *ssl, void *p, int n, const void *in, int in_len);

// These three hand out bytes for the peer in out.
mtls_result mtls_write(SSL *ssl, const void *p, int n, void *out, int out_len);
mtls_result mtls_shutdown(SSL *ssl, void *out, int out_len);
mtls_result mtls_drain(SSL *ssl, void *out, int out_len);

// mtls_peer gives the DER of the i-th certificate the peer sent, 0 being its
// leaf, and its length; 0 beyond the last. Free it with mtls_peer_free.
int mtls_peer(SSL *ssl, int i, unsigned char **der);
void mtls_peer_free(unsigned char *der);

void mtls_free(SSL *ssl);

#endif

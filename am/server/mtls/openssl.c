#include "openssl.h"

#include <stdio.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

enum {
	// What a peer may send as its chain: bytes, and certificates (its leaf,
	// eight between, a root).
	MAX_CHAIN_BYTES = 64 * 1024,
	MAX_CHAIN_CERTS = 1 + 8 + 1,

	// Checking a signature must stay cheap whatever key the peer brings.
	MAX_RSA_BITS = 8192,
	MAX_RSA_EXPONENT_BITS = 64,

	// The strength of RSA-1024, in bits as NIST counts them. The code that checks the
	// chain may require more, and can report that in a message instead of an alert.
	MIN_STRENGTH = 80,
};

// why takes the oldest error of the queue, the cause of the others, and empties the queue.
static char *why(void)
{
	const char *data = NULL;
	int flags = 0;
	unsigned long e = ERR_get_error_all(NULL, NULL, NULL, &data, &flags);
	const char *reason = e ? ERR_reason_error_string(e) : "no reason given by OpenSSL";
	char text[256];

	if (!(flags & ERR_TXT_STRING) || data == NULL || *data == 0)
		snprintf(text, sizeof text, "%s", reason ? reason : "unknown reason");
	else if (reason == NULL)
		snprintf(text, sizeof text, "%s", data);
	else
		snprintf(text, sizeof text, "%s (%s)", reason, data);
	ERR_clear_error();
	return strdup(text);
}

// check_key checks that the peer's key is strong enough and not too expensive. It
// returns X509_V_OK or the error whose alert fits, with a text in the error queue.
static int check_key(EVP_PKEY *key)
{
	int bits;

	if (key == NULL) {
		ERR_raise_data(ERR_LIB_USER, ERR_R_PASSED_INVALID_ARGUMENT, "the client's key is of an unknown kind");
		return X509_V_ERR_INVALID_PURPOSE;
	}
	bits = EVP_PKEY_get_bits(key);
	switch (EVP_PKEY_get_base_id(key)) {
	case EVP_PKEY_RSA:
	case EVP_PKEY_RSA_PSS: {
		BIGNUM *e = NULL;
		int e_bits;

		if (EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_E, &e) != 1)
			return X509_V_ERR_INVALID_PURPOSE;
		e_bits = BN_num_bits(e);
		BN_free(e);
		if (bits > MAX_RSA_BITS || e_bits > MAX_RSA_EXPONENT_BITS) {
			ERR_raise_data(ERR_LIB_USER, ERR_R_PASSED_INVALID_ARGUMENT,
				"the client's RSA key is too large: modulus %d bits, exponent %d bits", bits, e_bits);
			return X509_V_ERR_INVALID_PURPOSE;
		}
		break;
	}
	case EVP_PKEY_EC:
	case EVP_PKEY_ED25519:
	case EVP_PKEY_ED448:
		break;
	default:
		ERR_raise_data(ERR_LIB_USER, ERR_R_PASSED_INVALID_ARGUMENT, "the client's key cannot sign here");
		return X509_V_ERR_INVALID_PURPOSE;
	}
	if (EVP_PKEY_get_security_bits(key) < MIN_STRENGTH) {
		ERR_raise_data(ERR_LIB_USER, ERR_R_PASSED_INVALID_ARGUMENT, "the client's key is too weak: %d bits", bits);
		return X509_V_ERR_EE_KEY_TOO_SMALL;
	}
	return X509_V_OK;
}

// accept_any replaces the verification of the chain, which is not done
// here. It judges only the key whose possession the handshake is to prove, and
// the length of the chain.
static int accept_any(X509_STORE_CTX *x, void *unused)
{
	int verdict = check_key(X509_get0_pubkey(X509_STORE_CTX_get0_cert(x)));
	int n = sk_X509_num(X509_STORE_CTX_get0_untrusted(x));

	if (verdict == X509_V_OK && n > MAX_CHAIN_CERTS) {
		ERR_raise_data(ERR_LIB_USER, ERR_R_PASSED_INVALID_ARGUMENT,
			"the client sent %d certificates, more than %d", n, MAX_CHAIN_CERTS);
		verdict = X509_V_ERR_CERT_CHAIN_TOO_LONG;
	}
	X509_STORE_CTX_set_error(x, verdict);
	return verdict == X509_V_OK;
}

SSL_CTX *mtls_context_new(int sha1, char **reason)
{
	// Anonymous suites would not ask for a certificate: they are named even
	// though DEFAULT leaves them out. RSA key exchange stays in, for old clients.
	const char *suites = sha1 ? "DEFAULT:!aNULL:!eNULL:!kDHE:@SECLEVEL=0" : "DEFAULT:!aNULL:!eNULL:!kDHE:@SECLEVEL=2";
	// A finite field of 8192 bits costs the server 200 ms of a processor, and the
	// client nothing: these cost less than a signature with RSA. P-521 stays in,
	// for below TLS 1.3 a client's own key, too, must be of a group named here.
	const char *groups = "X25519:P-256:P-384:P-521";
	SSL_CTX *ctx;

	ERR_clear_error();
	ctx = SSL_CTX_new(TLS_server_method());
	if (ctx == NULL || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) != 1 ||
	    SSL_CTX_set_cipher_list(ctx, suites) != 1 || SSL_CTX_set1_groups_list(ctx, groups) != 1 ||
	    SSL_CTX_set_num_tickets(ctx, 0) != 1) {
		*reason = why();
		SSL_CTX_free(ctx);
		return NULL;
	}
	SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
		SSL_OP_CIPHER_SERVER_PREFERENCE);
	// A resumed session has lost the peer's intermediates, and its
	// certificates would not be checked again.
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
		SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_set_cert_verify_callback(ctx, accept_any, NULL);
	SSL_CTX_set_max_cert_list(ctx, MAX_CHAIN_BYTES);
	return ctx;
}

// refuse_passphrase keeps OpenSSL from asking for one on the terminal.
static int refuse_passphrase(char *buf, int size, int writing, void *asked)
{
	*(int *)asked = 1;
	return -1;
}

// add_chain gives the certificates of a PEM text to the context and returns the leaf.
static X509 *add_chain(SSL_CTX *ctx, const void *text, int len)
{
	BIO *in = BIO_new_mem_buf(text, len);
	X509 *leaf = NULL, *next = NULL;

	if (in == NULL || (leaf = PEM_read_bio_X509_AUX(in, NULL, NULL, NULL)) == NULL ||
	    SSL_CTX_use_certificate(ctx, leaf) != 1)
		goto fail;
	while ((next = PEM_read_bio_X509(in, NULL, NULL, NULL)) != NULL) {
		if (SSL_CTX_add0_chain_cert(ctx, next) != 1) {
			X509_free(next);
			goto fail;
		}
	}
	if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
		goto fail;
	ERR_clear_error();
	BIO_free(in);
	return leaf;
fail:
	X509_free(leaf);
	BIO_free(in);
	return NULL;
}

mtls_key_result mtls_context_add_key(SSL_CTX *ctx, const void *chain, int chain_len, const void *key, int key_len)
{
	mtls_key_result r = { MTLS_KEY_OK, 0, NULL };
	X509 *leaf = NULL;
	EVP_PKEY *pkey = NULL;
	BIO *in = NULL;
	int asked = 0;

	ERR_clear_error();
	if ((leaf = add_chain(ctx, chain, chain_len)) == NULL) {
		r.state = MTLS_KEY_BAD_CERTIFICATE;
	} else if ((in = BIO_new_mem_buf(key, key_len)) == NULL ||
		   (pkey = PEM_read_bio_PrivateKey(in, NULL, refuse_passphrase, &asked)) == NULL) {
		r.state = asked ? MTLS_KEY_ENCRYPTED : MTLS_KEY_BAD_KEY;
	} else if (X509_check_private_key(leaf, pkey) != 1) {
		r.state = MTLS_KEY_MISMATCH;
	} else if (SSL_CTX_use_PrivateKey(ctx, pkey) != 1) {
		r.state = MTLS_KEY_REFUSED;
	} else {
		r.kind = EVP_PKEY_get_base_id(pkey);
	}
	if (r.state != MTLS_KEY_OK)
		r.why = why();
	BIO_free(in);
	EVP_PKEY_free(pkey);
	X509_free(leaf);
	return r;
}

void mtls_context_free(SSL_CTX *ctx)
{
	SSL_CTX_free(ctx);
}

SSL *mtls_new(SSL_CTX *ctx)
{
	SSL *ssl;
	BIO *in, *out;

	ERR_clear_error();
	ssl = SSL_new(ctx);
	in = BIO_new(BIO_s_mem());
	out = BIO_new(BIO_s_mem());
	if (ssl == NULL || in == NULL || out == NULL) {
		BIO_free(in);
		BIO_free(out);
		SSL_free(ssl);
		ERR_clear_error();
		return NULL;
	}
	// An empty BIO means "not yet", never "end of file".
	BIO_set_mem_eof_return(in, -1);
	BIO_set_mem_eof_return(out, -1);
	SSL_set_bio(ssl, in, out);
	SSL_set_accept_state(ssl);
	return ssl;
}

// feed hands bytes of the peer to the SSL; 0 when out of memory.
static int feed(SSL *ssl, const void *in, int in_len)
{
	ERR_clear_error();
	return in_len <= 0 || BIO_write(SSL_get_rbio(ssl), in, in_len) == in_len;
}

// take moves bytes for the peer into out and counts what is left.
static void take(SSL *ssl, mtls_result *r, void *out, int out_len)
{
	BIO *b = SSL_get_wbio(ssl);
	int n = out_len > 0 ? BIO_read(b, out, out_len) : 0;

	r->out = n > 0 ? n : 0;
	r->pending = (int)BIO_ctrl_pending(b);
}

// finish turns the outcome rv of an SSL operation into a result.
static mtls_result finish(SSL *ssl, int rv, void *out, int out_len)
{
	mtls_result r = { MTLS_DONE, rv, 0, 0, NULL };

	if (rv <= 0) {
		r.n = 0;
		switch (SSL_get_error(ssl, rv)) {
		case SSL_ERROR_WANT_READ:
			r.state = MTLS_MORE;
			break;
		case SSL_ERROR_ZERO_RETURN:
			r.state = MTLS_EOF;
			break;
		default:
			r.state = MTLS_FAILED;
			r.why = why();
		}
	}
	take(ssl, &r, out, out_len);
	ERR_clear_error();
	return r;
}

mtls_result mtls_handshake(SSL *ssl, const void *in, int in_len)
{
	return finish(ssl, feed(ssl, in, in_len) ? SSL_do_handshake(ssl) : -1, NULL, 0);
}

mtls_result mtls_read(SSL *ssl, void *p, int n, const void *in, int in_len)
{
	return finish(ssl, feed(ssl, in, in_len) ? SSL_read(ssl, p, n) : -1, NULL, 0);
}

mtls_result mtls_write(SSL *ssl, const void *p, int n, void *out, int out_len)
{
	ERR_clear_error();
	return finish(ssl, SSL_write(ssl, p, n), out, out_len);
}

mtls_result mtls_shutdown(SSL *ssl, void *out, int out_len)
{
	mtls_result r = { MTLS_DONE, 0, 0, 0, NULL };

	ERR_clear_error();
	// 0 means that the peer has not sent close_notify yet, which is not awaited.
	SSL_shutdown(ssl);
	take(ssl, &r, out, out_len);
	ERR_clear_error();
	return r;
}

mtls_result mtls_drain(SSL *ssl, void *out, int out_len)
{
	mtls_result r = { MTLS_DONE, 0, 0, 0, NULL };

	ERR_clear_error();
	take(ssl, &r, out, out_len);
	ERR_clear_error();
	return r;
}

int mtls_peer(SSL *ssl, int i, unsigned char **der)
{
	X509 *x = NULL;
	int n;

	ERR_clear_error();
	*der = NULL;
	if (i == 0) {
		x = SSL_get0_peer_certificate(ssl);
	} else {
		// On the server's side this list does not begin with the leaf.
		STACK_OF(X509) *rest = SSL_get_peer_cert_chain(ssl);
		if (i - 1 < sk_X509_num(rest))
			x = sk_X509_value(rest, i - 1);
	}
	n = x ? i2d_X509(x, der) : 0;
	ERR_clear_error();
	return n > 0 ? n : 0;
}

void mtls_peer_free(unsigned char *der)
{
	OPENSSL_free(der);
}

void mtls_free(SSL *ssl)
{
	SSL_free(ssl);
	ERR_clear_error();
}

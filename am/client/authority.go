package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"

	"patchbay/am/api/xmlrpc"
)

// AuthorityError is the refusal of a call by an authority. Code is a code of the Common Federation
// API.
type AuthorityError struct {
	Code   int
	Output string
}

// Error indents further lines, so that they cannot look like those of the program.
func (e *AuthorityError) Error() string { return indented(e.Output) }

// DuplicateCode is the code for an object that exists already.
const DuplicateCode = 5

// CallAuthority calls a service of the Common Federation API, whose answers have a plain number as
// their code. It returns the value. A refusal is an *AuthorityError.
func (c *Client) CallAuthority(ctx context.Context, method string, params ...xmlrpc.Value) (xmlrpc.Value, error) {
	v, err := c.CallRaw(ctx, method, params...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	s, _ := v.(xmlrpc.Struct)
	code, _ := s.Get("code")
	n, ok := code.(int)
	if !ok {
		return nil, fmt.Errorf("%s: %w", method, errors.New("the answer has no numeric code; is there an authority at this URL?"))
	}
	value, _ := s.Get("value")
	if n != 0 {
		output, _ := s.Get("output")
		text, _ := xmlrpc.AsString(output)
		return nil, &AuthorityError{n, text}
	}
	return value, nil
}

// FirstCredential returns the first SFA credential in an answer of get_credentials.
func FirstCredential(v xmlrpc.Value) ([]byte, error) {
	list, _ := v.([]xmlrpc.Value)
	for _, x := range list {
		s, _ := x.(xmlrpc.Struct)
		kind, _ := s.Get("geni_type")
		value, _ := s.Get("geni_value")
		if text, ok := xmlrpc.AsString(value); ok && kind == "geni_sfa" {
			return []byte(text), nil
		}
	}
	return nil, errors.New("the authority returned no SFA credential")
}

// ServerCertificate returns the certificate, in DER, that a server shows to the client of the
// files. It is not verified.
func ServerCertificate(ctx context.Context, text, certFile, keyFile string) ([]byte, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	host := u.Host
	if u.Port() == "" {
		host += ":443"
	}
	id, err := loadIdentity(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{*id}}}
	conn, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to %s: %w", text, err)
	}
	defer conn.Close()
	secure, ok := conn.(*tls.Conn)
	if !ok || len(secure.ConnectionState().PeerCertificates) == 0 {
		return nil, errors.New("the server has shown no certificate")
	}
	return secure.ConnectionState().PeerCertificates[0].Raw, nil
}

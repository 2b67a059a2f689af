package cert

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"patchbay/credentials/rule"
)

// MaxCertificates is the maximum number of certificates in a GID, and from a TLS peer.
const MaxCertificates = 10

const (
	certificateLabel = "CERTIFICATE"
	listLabel        = "X509 CRL"
)

var parentMark = []byte("-----parent-----")

func beginOf(label string) []byte { return []byte("-----BEGIN " + label + "-----") }

// ParsePEM reads the certificates of a GID, leaf first. It accepts PEM blocks with or
// without text around them, old SFA's blocks joined by -----parent-----, and bare base64 of
// the DER. Duplicates are dropped.
//
// It fails if there is no certificate, or if one cannot be parsed. It also fails for more
// than MaxBytes bytes or MaxCertificates blocks.
func ParsePEM(text []byte) ([]*Certificate, error) {
	if len(text) > MaxBytes {
		return nil, refuseText(rule.CertificateSize, "the certificates have %d bytes; at most %d are read", len(text), MaxBytes)
	}
	blocks, err := splitPEM(text, MaxCertificates)
	if err != nil {
		return nil, err
	}
	var list []*Certificate
	for i, b := range blocks {
		c, err := parseBase64(b)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", i+1, err)
		}
		if !contains(list, c) {
			list = append(list, c)
		}
	}
	return list, nil
}

// splitPEM returns the base64 text of each certificate. It fails for none, or more than
// limit.
func splitPEM(text []byte, limit int) ([][]byte, error) {
	var blocks [][]byte
	if bytes.Contains(text, beginOf(certificateLabel)) {
		var err error
		if blocks, err = splitBlocks(text, certificateLabel, limit); err != nil {
			return nil, err
		}
	} else {
		for part := range bytes.SplitSeq(text, parentMark) {
			if part = bytes.TrimSpace(part); len(part) == 0 {
				continue
			}
			if len(blocks) == limit {
				return nil, refuseText(rule.CertificateCount, "more than %d certificates", limit)
			}
			blocks = append(blocks, part)
		}
	}
	if len(blocks) == 0 {
		return nil, errors.New("no certificate")
	}
	return blocks, nil
}

// splitBlocks returns the base64 text of each block. It fails if a block has no END line,
// or for more than limit blocks.
func splitBlocks(text []byte, label string, limit int) (blocks [][]byte, err error) {
	begin, end := beginOf(label), []byte("-----END "+label+"-----")
	for {
		_, rest, found := bytes.Cut(text, begin)
		if !found {
			return blocks, nil
		}
		block, after, found := bytes.Cut(rest, end)
		if !found {
			return blocks, fmt.Errorf("a %s without END line", label)
		}
		if len(blocks) == limit {
			return blocks, refuseText(rule.CertificateCount, "more than %d blocks %s", limit, label)
		}
		blocks, text = append(blocks, block), after
	}
}

func parseBase64(text []byte) (*Certificate, error) {
	der, err := decodeBase64(text)
	if err != nil {
		return nil, err
	}
	return Parse(der)
}

// decodeBase64 ignores white space.
func decodeBase64(text []byte) ([]byte, error) {
	text = bytes.Join(bytes.Fields(text), nil)
	der := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(der, text)
	if err != nil {
		return nil, errors.New("not base64")
	}
	return der[:n], nil
}

// contains compares the bytes of certificates.
func contains(list []*Certificate, c *Certificate) bool {
	return slices.ContainsFunc(list, func(d *Certificate) bool { return d.hash == c.hash })
}

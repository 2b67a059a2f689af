package cert

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
)

// MaxCertificates is the most certificates one GID or one TLS peer may show.
const MaxCertificates = 10

var (
	beginMark  = []byte("-----BEGIN CERTIFICATE-----")
	endMark    = []byte("-----END CERTIFICATE-----")
	parentMark = []byte("-----parent-----")
)

// ParsePEM reads the certificates of a GID, leaf first, in every form met:
// PEM blocks with or without text around them, old SFA's blocks joined by
// -----parent-----, and bare base64 of the DER. Duplicates are dropped.
//
// It is an error when there is no certificate, when one cannot be read, or
// beyond MaxBytes of text and MaxCertificates blocks.
func ParsePEM(text []byte) ([]*Certificate, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("certificates of %d bytes, at most %d are read", len(text), MaxBytes)
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

// splitPEM finds the base64 text of each certificate.
func splitPEM(text []byte, most int) ([][]byte, error) {
	var blocks [][]byte
	add := func(b []byte) error {
		if len(blocks) == most {
			return fmt.Errorf("more than %d certificates", most)
		}
		blocks = append(blocks, b)
		return nil
	}
	if !bytes.Contains(text, beginMark) {
		for part := range bytes.SplitSeq(text, parentMark) {
			if part = bytes.TrimSpace(part); len(part) > 0 {
				if err := add(part); err != nil {
					return nil, err
				}
			}
		}
	}
	for {
		_, rest, found := bytes.Cut(text, beginMark)
		if !found {
			break
		}
		block, after, found := bytes.Cut(rest, endMark)
		if !found {
			return nil, errors.New("a certificate without END line")
		}
		if err := add(block); err != nil {
			return nil, err
		}
		text = after
	}
	if len(blocks) == 0 {
		return nil, errors.New("no certificate")
	}
	return blocks, nil
}

func parseBase64(text []byte) (*Certificate, error) {
	text = bytes.Join(bytes.Fields(text), nil)
	der := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(der, text)
	if err != nil {
		return nil, errors.New("not base64")
	}
	return Parse(der[:n])
}

func contains(list []*Certificate, c *Certificate) bool {
	for _, d := range list {
		if d.same(c) {
			return true
		}
	}
	return false
}

package setup

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"patchbay/rspec/step"
)

const dataScheme = "data:"

func isData(text string) bool {
	return len(text) >= len(dataScheme) && strings.EqualFold(text[:len(dataScheme)], dataScheme)
}

// parseURL parses an http: or https: URL, or that of a delivered file. It drops the fragment.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	_, _, isDelivered := step.DeliveredFile(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the url %.200q cannot be read: %w", text, errors.Unwrap(err))
	case isDelivered:
		u.Fragment, u.Path = "", "/"+u.Opaque
		return u, nil
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the url %.200q is not an http:, https: or data: URL", u.Redacted())
	case u.Hostname() == "":
		return nil, fmt.Errorf("the url %.200q has no host", u.Redacted())
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// displayURL returns a URL for messages: shortened, and without a password.
func displayURL(text string) string {
	if isData(text) {
		return singleLine(text, 40)
	}
	if name, _, ok := step.DeliveredFile(text); ok {
		return "the file " + name + " of the site's catalogue"
	}
	u, err := parseURL(text)
	if err != nil {
		return fmt.Sprintf("%.200q", text)
	}
	return singleLine(u.Redacted(), 200)
}

// fileName returns two names for the file of a URL. The result name is for detecting the
// format. The result savedName is for saving a file that is not an archive; like wget's names
// it includes the query, since commands in requests use such names. Both are "" if the name
// cannot be used.
func fileName(text string) (name, savedName string) {
	u, err := parseURL(text)
	if isData(text) || err != nil {
		return "", ""
	}
	name = path.Base(u.Path)
	if name == "." || name == ".." || name == "/" || strings.ContainsAny(name, "/\x00") || len(name) > maxName {
		return "", ""
	}
	long := name + "?" + strings.ReplaceAll(u.RawQuery, "/", "%2F")
	if u.RawQuery == "" || strings.ContainsRune(long, 0) || len(long) > maxName {
		return name, name
	}
	return name, long
}

// dataContent returns the content of a data: URL (RFC 2397).
func dataContent(text string) ([]byte, error) {
	head, body, ok := strings.Cut(text[len(dataScheme):], ",")
	if !ok {
		return nil, errors.New("the data: url has no comma before its data")
	}
	plain, err := url.PathUnescape(body)
	if err != nil {
		return nil, fmt.Errorf("the data: url cannot be read: %w", err)
	}
	at := strings.LastIndexByte(head, ';')
	if !strings.EqualFold(strings.TrimSpace(head[at+1:]), "base64") {
		return []byte(plain), nil
	}
	plain = strings.NewReplacer(" ", "", "\t", "", "\r", "", "\n", "", "=", "", "-", "+", "_", "/").Replace(plain)
	b, err := base64.RawStdEncoding.DecodeString(plain)
	if err != nil {
		return nil, fmt.Errorf("the data: url is not base64: %w", err)
	}
	return b, nil
}

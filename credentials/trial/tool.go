package trial

import (
	"os"
	"time"

	"patchbay/am/urn"
)

// Tool is a program, such as a portal, that acts for users.
type Tool struct {
	URN urn.URN
	// Certificate is the certificate chain in PEM, beginning with the tool's own
	// certificate. Key is the tool's private key in PEM.
	Certificate, Key []byte
}

// Tool returns the tool of that name, and creates it if necessary. A name is a letter
// followed by up to 63 letters, digits, hyphens, dots or underscores.
func (a *Authority) Tool(name string, now time.Time) (Tool, error) {
	if err := checkTool(name); err != nil {
		return Tool{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	certificate, secret := a.path("tools", name, ".pem"), a.path("tools", name, ".key")
	c, err := readCertificate(certificate)
	if isMissing(err) {
		made, key, err := a.certify(a.newURN(urn.Tool, name), now)
		if err != nil {
			return Tool{}, err
		}
		os.Remove(secret) // an interrupted call may have left it
		if err := writeNew(secret, encodeKey(key), 0o600); err != nil {
			return Tool{}, err
		}
		if err := writeNew(certificate, a.chainPEM(made), 0o644); err != nil {
			return Tool{}, err
		}
		c = made
	} else if err != nil {
		return Tool{}, err
	}
	key, err := os.ReadFile(secret)
	if err != nil {
		return Tool{}, err
	}
	return Tool{URN: c.URN, Certificate: a.chainPEM(c), Key: key}, nil
}

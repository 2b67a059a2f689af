package e2e

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/client"
)

// login is one SSH endpoint of a node.
type login struct{ node, user, host, port string }

// logins returns the first SSH endpoint of each node in a manifest.
func logins(manifest string) ([]login, error) {
	var doc struct {
		Nodes []struct {
			ClientID string `xml:"client_id,attr"`
			Logins   []struct {
				Authentication string `xml:"authentication,attr"`
				Host           string `xml:"hostname,attr"`
				Port           string `xml:"port,attr"`
				User           string `xml:"username,attr"`
			} `xml:"services>login"`
		} `xml:"node"`
	}
	if err := xml.Unmarshal([]byte(manifest), &doc); err != nil {
		return nil, fmt.Errorf("the manifest cannot be read: %w", err)
	}
	var out []login
	for _, n := range doc.Nodes {
		if len(n.Logins) == 0 {
			continue
		}
		l := n.Logins[0]
		if l.Authentication != "ssh-keys" || l.Host == "" || l.Port == "" || l.User == "" {
			return nil, errors.New("a login in the manifest lacks host, port, user, or ssh-keys")
		}
		out = append(out, login{n.ClientID, l.User, l.Host, l.Port})
	}
	return out, nil
}

func anyFailed(slivers []client.Sliver) bool {
	return slices.ContainsFunc(slivers, func(s client.Sliver) bool { return s.Operational == string(am.Failed) })
}

func sleep(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(100 * time.Millisecond):
		return nil
	}
}

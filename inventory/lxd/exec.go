package lxd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"patchbay/inventory/lxd/inside"
)

// maxOutput bounds the output of the program, in bytes.
const maxOutput = 1 << 20

// errLate means that a node took too long.
var errLate = errors.New("the node does not answer in time")

// exec runs the program in a running node, and returns its output. Users of the node are root there
// and may have replaced the program. So its time is limited, and its output is a file in the node:
// output that the server records could fill the member's disk.
func (c *client) exec(ctx context.Context, name string, limit time.Duration, words ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	a, err := c.do(ctx, request{method: http.MethodPost, path: "instances/" + name + "/exec", body: map[string]any{
		"command": append([]string{inside.Program, inside.Verb}, words...), "wait-for-websocket": false, "interactive": false,
		"environment": map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"},
	}})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("%w: it has not ended %s after %s", errLate, words[0], limit)
	}
	if err != nil {
		return nil, err
	}
	var result struct {
		Return int `json:"return"`
	}
	if err := json.Unmarshal(a.Metadata, &result); err != nil {
		return nil, err
	}
	output, err := c.readFile(ctx, name, inside.OutputFile(words))
	if result.Return != 0 {
		return nil, fmt.Errorf("%s in the node ended with status %d: %s", words[0], result.Return, oneLine(strings.TrimSpace(string(output))))
	}
	return output, err
}

// readFile returns at most maxOutput bytes.
func (c *client) readFile(ctx context.Context, name, path string) ([]byte, error) {
	resp, err := c.round(ctx, request{method: http.MethodGet, path: "instances/" + name + "/files", query: url.Values{"path": {path}}})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxOutput))
	if err == nil && resp.StatusCode >= 400 {
		err = &apiError{resp.StatusCode, "the server does not return the file " + path + " of the node"}
	}
	return text, err
}

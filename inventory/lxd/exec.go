package lxd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// exec runs a command as root in a running instance, and returns its output. The error has the end
// of its standard error if the status is not 0.
func (c *client) exec(ctx context.Context, name string, command ...string) ([]byte, error) {
	a, err := c.do(ctx, request{method: http.MethodPost, path: "instances/" + name + "/exec", body: map[string]any{
		"command": command, "record-output": true, "wait-for-websocket": false, "interactive": false,
		"environment": map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"},
	}})
	if err != nil {
		return nil, err
	}
	var result struct {
		Return int               `json:"return"`
		Output map[string]string `json:"output"`
	}
	if err := json.Unmarshal(a.Metadata, &result); err != nil {
		return nil, err
	}
	var read sync.WaitGroup
	var texts [2][]byte
	var errs [2]error
	for k, stream := range []string{"1", "2"} {
		read.Go(func() { texts[k], errs[k] = c.takeLog(ctx, result.Output[stream]) })
	}
	read.Wait()
	if result.Return != 0 {
		return nil, fmt.Errorf("%s ended with status %d: %s", strings.Join(command, " "), result.Return, oneLine(string(texts[1])))
	}
	return texts[0], errs[0]
}

// maxOutput bounds the output of a command, in bytes.
const maxOutput = 1 << 20

// takeLog reads a recorded output and removes it from the server.
func (c *client) takeLog(ctx context.Context, path string) ([]byte, error) {
	path = strings.TrimPrefix(path, "/1.0/")
	if path == "" {
		return nil, errors.New("the server did not record the output")
	}
	resp, err := c.round(ctx, request{method: http.MethodGet, path: path})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxOutput))
	if err == nil && resp.StatusCode >= 400 {
		err = &apiError{resp.StatusCode, "the server does not return the recorded output"}
	}
	if d, err := c.round(ctx, request{method: http.MethodDelete, path: path}); err == nil {
		d.Body.Close()
	}
	return text, err
}

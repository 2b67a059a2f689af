package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// HTTPAnswer is the HTTP answer to any body.
type HTTPAnswer struct {
	Status      int
	ContentType string
	Body        []byte
}

// Post sends a body that need not be a call, and returns what the server answers.
func (c *Client) Post(ctx context.Context, body []byte) (a HTTPAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url.String(), bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header.Set("Content-Type", "text/xml")
	if err := c.recordf("> %s %s\n%.2000s\n", req.Method, c.url, body); err != nil {
		return a, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return a, c.explain(ctx, err)
	}
	defer resp.Body.Close()
	a = HTTPAnswer{Status: resp.StatusCode, ContentType: resp.Header.Get("Content-Type")}
	if a.Body, err = io.ReadAll(io.LimitReader(resp.Body, c.largest)); err != nil {
		return a, c.explain(ctx, err)
	}
	if err := c.recordf("< %s\n%.2000s\n", resp.Status, a.Body); err != nil {
		return a, fmt.Errorf("cannot record the answer: %w", err)
	}
	return a, nil
}

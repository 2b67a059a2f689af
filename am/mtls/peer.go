package mtls

import (
	"context"
	"net"
)

type connKey struct{}

// ConnContext is for http.Server.ConnContext: it makes the connection of a
// request known to [FromContext]. The handshake is not done yet when net/http
// calls it.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if tc, ok := c.(*Conn); ok {
		return context.WithValue(ctx, connKey{}, tc)
	}
	return ctx
}

// FromContext returns the connection that a request came by; false when
// ConnContext was not told of it.
func FromContext(ctx context.Context) (*Conn, bool) {
	c, ok := ctx.Value(connKey{}).(*Conn)
	return c, ok
}

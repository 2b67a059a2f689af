package local

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"patchbay/inventory/provider"
)

const (
	lookupTime = 3 * time.Second
	lookups    = 8 // that run at the same time
)

// endpoints returns an endpoint for each node that has a login and no proxy of its own.
// It leaves out nodes whose host name cannot be resolved, so that the testbed keeps
// their present endpoints.
func (b *behind) endpoints(ctx context.Context, nodes map[string]entry) []EndpointRequest {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	var mu sync.Mutex
	var all []EndpointRequest
	var work sync.WaitGroup
	places := make(chan struct{}, lookups)
	for name, e := range nodes {
		logins := e.strings(provider.AttrLogin)
		if len(logins) == 0 || e.text(provider.AttrProxy) != "" {
			continue // the node has no login yet, or its own gateway
		}
		request := EndpointRequest{Name: name, Hostname: e.text(provider.AttrHostname)}
		if b.users {
			request.Users = e.strings(provider.AttrUsers)
		}
		_, target := splitUser(logins[0])
		places <- struct{}{}
		work.Go(func() {
			defer func() { <-places }()
			address, err := resolve(ctx, target)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				fmt.Fprintf(b.stderr, "warn: the address of node %s cannot be found: %v\n", name, err)
				return
			}
			request.Address = address
			all = append(all, request)
		})
	}
	work.Wait()
	return all
}

func resolve(ctx context.Context, hostPort string) (string, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return "", err
	}
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return net.JoinHostPort(a.String(), port), nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(found[0].Unmap().String(), port), nil
}

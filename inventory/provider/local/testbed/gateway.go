package testbed

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"

	"patchbay/inventory/provider/local"
	"patchbay/inventory/provider/local/gateway"
	"patchbay/inventory/provider/local/node"
)

const (
	gatewayFile    = "gateway.json"
	gatewayKeyFile = "gateway_key"
)

// gatewayLimits bound the gateway against users that try to exhaust it.
var gatewayLimits = node.Limits{Memory: 512 << 20, PIDs: 256}

func (t *Testbed) gatewayHolder() string { return t.settings.Instance + ":gateway" }

// openGateway starts the gateway with its saved user id, port and key. It allocates or
// creates those that are missing, and saves them.
func (t *Testbed) openGateway(start func(gateway.Options) (sshGateway, error)) error {
	before := t.gatewayIDs
	if err := t.allocateGatewayID(); err != nil {
		return fmt.Errorf("cannot allocate a user id for the gateway: %w", err)
	}
	key, _, err := loadOrCreateKey(t.o.State, gatewayKeyFile, func() ([]byte, error) {
		key, _, err := newHostKey()
		return key, err
	})
	if err != nil {
		return err
	}
	o := gateway.Options{
		Program: t.o.Program, UID: int(t.gatewayIDs.UID), GID: int(t.gatewayIDs.UID),
		HostKey: key, DialAgent: t.runtime.Agent, Log: t.log,
		SetLimits: func(pid int) error { return t.host.LimitGateway(pid, gatewayLimits) },
	}
	if t.settings.Publish != local.Direct {
		if o.Gateway, err = t.openGatewayPort(); err != nil {
			return err
		}
	}
	if t.gatewayIDs != before {
		if err := t.write(t.o.State, gatewayFile, t.gatewayIDs); err != nil {
			if o.Gateway != nil {
				o.Gateway.Close()
			}
			return err
		}
	}
	t.gateway, err = start(o)
	return err
}

// allocateGatewayID claims the saved user id. If the id is missing or taken, it allocates
// another one.
func (t *Testbed) allocateGatewayID() (err error) {
	if t.gatewayIDs.UID != 0 && t.userIDs.Claim(t.gatewayIDs.UID, t.gatewayHolder()) == nil {
		return nil
	}
	t.gatewayIDs.UID, err = t.userIDs.Allocate(t.gatewayHolder(), nil)
	return err
}

// openGatewayPort opens the port in the settings. Without such a setting, it opens the saved
// port, or a new port if the saved one is taken.
func (t *Testbed) openGatewayPort() (l net.Listener, err error) {
	if t.settings.GatewayPort != 0 {
		if l, err = t.openHeldPort(t.gatewayIDs.Port, t.gatewayHolder()); err != nil {
			err = fmt.Errorf("the gateway cannot use port %d: %w; set another gateway_port in the settings", t.gatewayIDs.Port, err)
		}
	} else if l, t.gatewayIDs.Port, err = t.openPort(t.gatewayIDs.Port, t.gatewayHolder()); err != nil {
		err = fmt.Errorf("cannot allocate a port for the gateway: %w; list the used ports with: ss -tlnp", err)
	}
	return l, err
}

// readGateway drops a saved port that the settings no longer allow.
func (t *Testbed) readGateway() error {
	if err := readJSON(t.o.State, gatewayFile, &t.gatewayIDs); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the saved state of the gateway is damaged: %w; move %s away, and the gateway gets another user id and, unless gateway_port is set, another port", err, filepath.Join(t.o.State, gatewayFile))
	}
	if port := t.gatewayIDs.Port; t.settings.GatewayPort != 0 || port < t.settings.FirstPort || port > t.settings.LastPort {
		t.gatewayIDs.Port = t.settings.GatewayPort
	}
	return nil
}

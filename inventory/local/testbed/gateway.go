package testbed

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"

	"patchbay/inventory/local"
	"patchbay/inventory/local/gateway"
	"patchbay/inventory/local/node"
)

const (
	gatewayFile    = "gateway.json"
	gatewayKeyFile = "gateway_key"
)

// gatewayLimits keep a gateway that somebody fills within bounds.
var gatewayLimits = node.Limits{Memory: 512 << 20, PIDs: 256}

func (t *Testbed) gatewayHolder() string { return t.settings.Instance + ":gateway" }

// openGateway starts the gateway with the numbers and the key that it had.
func (t *Testbed) openGateway(start func(gateway.Options) (sshGateway, error)) error {
	before := t.gatewayIDs
	if err := t.allocateGatewayID(); err != nil {
		return fmt.Errorf("no user id for the gateway: %w", err)
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
		HostKey: key, Agent: t.runtime.Agent, Log: t.log,
		Place: func(pid int) error { return t.host.PlaceGateway(pid, gatewayLimits) },
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

func (t *Testbed) allocateGatewayID() (err error) {
	if t.gatewayIDs.UID != 0 && t.userIDs.Hold(t.gatewayIDs.UID, t.gatewayHolder()) == nil {
		return nil
	}
	t.gatewayIDs.UID, err = t.userIDs.Take(t.gatewayHolder(), nil)
	return err
}

// openGatewayPort opens the port that the settings name, or the one that it had.
func (t *Testbed) openGatewayPort() (l net.Listener, err error) {
	if t.settings.GatewayPort != 0 {
		if l, err = t.openHeldPort(t.gatewayIDs.Port, t.gatewayHolder()); err != nil {
			err = fmt.Errorf("the gateway cannot have port %d: %w; name another gateway_port in the settings", t.gatewayIDs.Port, err)
		}
	} else if l, t.gatewayIDs.Port, err = t.openPort(t.gatewayIDs.Port, t.gatewayHolder()); err != nil {
		err = fmt.Errorf("no port for the gateway: %w; see who has the ports: ss -tlnp", err)
	}
	return l, err
}

// readGateway finds the numbers that the gateway had, as far as the settings still let
// it have them.
func (t *Testbed) readGateway() error {
	if err := readJSON(t.o.State, gatewayFile, &t.gatewayIDs); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("what was noted of the gateway is spoilt: %w; move %s away, and the gateway gets another user id and, unless gateway_port is set, another port", err, filepath.Join(t.o.State, gatewayFile))
	}
	if port := t.gatewayIDs.Port; t.settings.GatewayPort != 0 || port < t.settings.FirstPort || port > t.settings.LastPort {
		t.gatewayIDs.Port = t.settings.GatewayPort
	}
	return nil
}

// Package api speaks the GENI Aggregate Manager API, version 3: it takes a
// decoded XML-RPC call apart into typed arguments, has the caller's right
// checked, calls the aggregate, and puts the outcome into the envelope
// {code, value, output}.
//
//	Call ─ method table ─> arguments ─ Authorize ─> Grant ─> Aggregate ─> Outcome ─> envelope
//
// The method table is data: a row says the wire name, the arguments in order,
// the right asked and the handler. Errors become codes in one place, codeOf.
// What is broken XML-RPC is a Fault; everything else is an envelope.
//
// ListResources is a prepared answer: the complete body, made by the first
// reader after a change.
//
// It knows neither HTTP nor the store. It answers AM API v3, all methods, and
// "Return struct".
package api

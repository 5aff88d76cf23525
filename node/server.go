package node

import (
	"log/slog"
	"net/http"
	"time"

	"holdfast/queue"
)

// Limits on what a connection may cost. A request may take as long as the
// longest wait of a claim, with as much again for a slow body or a slow reader.
const (
	headerTimeout   = 10 * time.Second
	requestTimeout  = 2 * queue.MaxWait
	idleTimeout     = 3 * time.Minute
	maxHeaderBytes  = 64 << 10
	maxBodyBytes    = 16 << 20
	retryAfter      = "1" // seconds, of an answer 503 or 429
	seqHeader       = "Holdfast-Seq"
	jsonContentType = "application/json"

	// Of a write's answer: up to where all commits are in the replica.
	replicatedSeqHeader = "Holdfast-Replicated-Seq"
	primaryHeader       = "Holdfast-Primary"
)

func newServer(handler http.Handler, cfg Config) *http.Server {
	// HTTP/2 without TLS: one connection then carries many waiting claims.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	protocols.SetHTTP2(true) // with TLS
	return &http.Server{
		Handler:           handler,
		Protocols:         protocols,
		ReadHeaderTimeout: cfg.headerTimeout,
		ReadTimeout:       cfg.requestTimeout,
		WriteTimeout:      cfg.requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelWarn),
	}
}

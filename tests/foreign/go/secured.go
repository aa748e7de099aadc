package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// cell is one way to connect: what is empty is not used.
type cell struct {
	Name, Bootstrap, Topic, Group    string
	Authority, Certificate, Key      string
	Mechanism, User, Password, Token string
}

func (c cell) options() ([]kgo.Opt, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(c.Bootstrap, ",")...),
		kgo.RecordDeliveryTimeout(20 * time.Second),
		kgo.RetryTimeout(20 * time.Second),
	}
	if c.Authority != "" {
		pem, err := os.ReadFile(c.Authority)
		if err != nil {
			return nil, err
		}
		config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
		config.RootCAs.AppendCertsFromPEM(pem)
		if c.Certificate != "" {
			own, err := tls.LoadX509KeyPair(c.Certificate, c.Key)
			if err != nil {
				return nil, err
			}
			config.Certificates = []tls.Certificate{own}
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if c.Mechanism != "" {
		options = append(options, kgo.SASL(c.mechanism()))
	}
	return options, nil
}

func (c cell) mechanism() sasl.Mechanism {
	switch c.Mechanism {
	case "PLAIN":
		return plain.Auth{User: c.User, Pass: c.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: c.User, Pass: c.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: c.User, Pass: c.Password}.AsSha512Mechanism()
	default:
		return oauth.Auth{Token: c.Token}.AsMechanism()
	}
}

// work writes a record, reads it by a share group, and accepts it.
func (c cell) work() error {
	options, err := c.options()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	producer, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer producer.Close()
	record := kgo.Record{Topic: c.Topic, Value: []byte("go")}
	if err := producer.ProduceSync(ctx, &record).FirstErr(); err != nil {
		return err
	}
	consumer, err := kgo.NewClient(append(options, kgo.ConsumeTopics(c.Topic), kgo.ShareGroup(c.Group))...)
	if err != nil {
		return err
	}
	defer consumer.Close()
	for {
		fetches := consumer.PollRecords(ctx, 10)
		if ctx.Err() != nil {
			return errors.New("no record came")
		}
		for _, failed := range fetches.Errors() {
			return failed.Err
		}
		if len(fetches.Records()) > 0 {
			consumer.MarkAcks(kgo.AckAccept)
			return consumer.FlushAcks(ctx)
		}
	}
}

// secured goes over the cells of a JSON file.
func secured(file string) {
	text, err := os.ReadFile(file)
	check(err)
	var cells []cell
	check(json.Unmarshal(text, &cells))
	for _, c := range cells {
		said := "ok"
		if err := c.work(); err != nil {
			said = fmt.Sprint(err)
		}
		say("cell", event{"name": c.Name, "outcome": said})
	}
}

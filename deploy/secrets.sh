#!/bin/sh
# Make the secrets that docker-compose.yml reads, once: random passwords, and the addresses that carry them.
set -eu
folder=${1:-secrets}
if [ -e "$folder" ]; then
    echo "$folder is there already; nothing was changed" >&2
    exit 1
fi
umask 077
mkdir -p "$folder"
random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
postgres=$(random)
redis=$(random)
cd "$folder"
printf '%s' "$postgres" > postgres_password
printf '%s' "$redis" > redis_password
printf 'requirepass %s\nappendonly yes\ndir /data\n' "$redis" > valkey.conf
printf 'postgresql+psycopg://reef:%s@db:5432/reef' "$postgres" > reef_database_url
printf 'redis://:%s@redis:6379/0' "$redis" > reef_redis_url
# Containers run as users of their own, which must be able to read what is mounted; the folder stays closed to others.
chmod 0444 ./*

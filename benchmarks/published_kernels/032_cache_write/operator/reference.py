"""Keys and values of tokens, written to their slots of a paged cache."""


def cache_write(key, value, key_cache, value_cache, slots):
    key_cache.view(-1, *key.shape[1:])[slots] = key
    value_cache.view(-1, *value.shape[1:])[slots] = value
    return key_cache, value_cache

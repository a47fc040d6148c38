const abp = { initialize: async () => ({}) };

window.apb = { initialize: async () => ({}) };
